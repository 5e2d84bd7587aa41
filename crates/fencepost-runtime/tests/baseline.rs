//! A thousand kept leases come and go: no thread, no task and no sleeper is left. Alone in its program, because it counts threads.

use std::sync::Arc;
use std::time::Duration;

use fencepost_core::{AcquireLease, HolderName, HostClock, LeaseName, Store};
use fencepost_mem::MemStore;
use fencepost_runtime::KeptLease;

const MANY: usize = 1_000;

/// How many threads this process has; none where the system does not tell.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, |tasks| tasks.count())
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// B25 for leases.
#[tokio::test]
async fn b25_a_thousand_kept_leases_leave_nothing_behind() {
    let store: Arc<dyn Store> = Arc::new(MemStore::new(Arc::new(HostClock)));
    let (threads_before, tasks_before) = (threads(), tasks());
    let request =
        |n: usize| AcquireLease::new(LeaseName::new(format!("lease-{n}")).unwrap(), HolderName::new("h").unwrap());

    let mut kept = Vec::new();
    for n in 0..MANY {
        kept.push(KeptLease::acquire(store.clone(), &request(n)).await.unwrap().expect("it is free"));
    }
    assert!(threads() <= threads_before + 1, "all deadlines are watched by one thread, and there are {}", threads());
    assert_eq!(tasks(), tasks_before + MANY);
    // And as many wait, for as many leases.
    let waiting: Vec<_> = (0..MANY)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let _ = KeptLease::acquire_within(store, &request(n), Duration::MAX).await;
            })
        })
        .collect();
    tokio::task::yield_now().await;
    waiting.iter().for_each(|waiter| waiter.abort());
    for waiter in waiting {
        assert!(waiter.await.unwrap_err().is_cancelled());
    }
    for (n, lease) in kept.into_iter().enumerate() {
        if n % 2 == 0 {
            lease.release().await.unwrap();
        }
    }
    while tasks() > tasks_before {
        tokio::task::yield_now().await;
    }
    // The watcher sees within its interval that nobody needs it.
    while threads() > threads_before {
        tokio::task::yield_now().await;
    }
}
