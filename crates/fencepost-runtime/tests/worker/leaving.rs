//! Leaving: a worker that ended, however it did, leaves no task, thread, sleeper or membership behind.

use std::time::Duration;

use fencepost_core::Members;
use tokio::runtime::Handle;

use crate::stage::{Does, PATIENCE, Stage, TTL, nothing_to_do, pass, path, settings};

/// Waits until the runtime has no more tasks than it had.
async fn tasks_end(at_first: usize) {
    let waiting = async {
        while Handle::current().metrics().num_alive_tasks() > at_first {
            pass(Duration::from_millis(10)).await;
        }
    };
    let ended = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(ended.is_ok(), "{} tasks instead of {at_first}", Handle::current().metrics().num_alive_tasks());
}

#[tokio::test(start_paused = true)]
async fn a_hundred_workers_leave_nothing_behind() {
    let stage = Stage::new(4).await;
    let at_first = Handle::current().metrics().num_alive_tasks();
    for round in 0..4 {
        let mut running = Vec::new();
        for n in 0..25 {
            let joined = stage.join(settings(&format!("w{round}-{n}")), nothing_to_do()).await;
            running.push(joined.run());
        }
        pass(TTL / 4).await;
        assert!(!stage.store.sleepers.is_empty());
        assert_eq!(stage.store.members(&path()).await.unwrap().len(), 25);
        for worker in running {
            worker.stop().await;
        }
        assert!(stage.store.members(&path()).await.unwrap().is_empty());
        assert!(stage.store.sleepers.is_empty(), "{:?}", stage.store.sleepers.topics());
        tasks_end(at_first).await;
    }
    assert!(stage.slots().await.iter().all(|slot| slot.owner.is_none()));
}

/// Joined and never run: its membership lapses by itself.
#[tokio::test(start_paused = true)]
async fn a_worker_that_is_dropped_before_it_runs_leaves_nothing_behind() {
    let stage = Stage::new(1).await;
    let at_first = Handle::current().metrics().num_alive_tasks();
    for n in 0..100 {
        drop(stage.join(settings(&format!("w{n}")), nothing_to_do()).await);
    }
    assert!(stage.store.sleepers.is_empty());
    tasks_end(at_first).await;
    pass(TTL).await;
    assert!(stage.store.members(&path()).await.unwrap().is_empty());
}

/// Told by being dropped.
struct Dropped(tokio::sync::mpsc::UnboundedSender<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// Dropped at any await: nothing goes on in the background, and what was held expires by itself.
#[tokio::test(start_paused = true)]
async fn a_worker_that_is_dropped_while_it_runs_takes_everything_along() {
    let stage = Stage::new(2).await;
    stage.send(2).await;
    let at_first = Handle::current().metrics().num_alive_tasks();
    let (drops, mut dropped) = tokio::sync::mpsc::unbounded_channel();
    let never = Does(move |_, _| {
        let alive = Dropped(drops.clone());
        async move {
            let _alive = alive;
            std::future::pending().await
        }
    });
    let worker = stage.start(settings("w1"), never).await;
    worker.diary.until(|diary| diary.count("received") == 2).await;
    worker.task.abort();
    for _ in 0..2 {
        tokio::time::timeout(PATIENCE, dropped.recv()).await.expect("its handlers end with it").unwrap();
    }
    tasks_end(at_first).await;
    assert!(stage.store.sleepers.is_empty());

    let renewals = stage.store.calls("heartbeat");
    pass(TTL).await;
    assert_eq!(stage.store.calls("heartbeat"), renewals, "nobody renews for it");
    assert!(stage.store.members(&path()).await.unwrap().is_empty());
    for slot in 0..2 {
        let heir = stage.claim(slot).await.expect("its ttl has passed");
        assert_eq!(heir.batch.map(|batch| (batch.deliveries, batch.crashes)), Some((2, 1)));
    }
}

/// Each worker has a thread that watches deadlines; it ends with the worker.
#[cfg(target_os = "linux")]
#[test]
fn threads_that_watch_deadlines_end() {
    use fencepost_core::HostClock;
    use fencepost_runtime::DeadlineWatcher;

    // A thread's name has at most 15 bytes; no other test of this program has one of this name.
    let count = |name: &str| {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().map_while(Result::ok);
        let names = tasks.map(|task| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default());
        names.filter(|found| found.trim() == name).count()
    };
    let watchers: Vec<_> = (0..20).map(|_| DeadlineWatcher::start(std::sync::Arc::new(HostClock))).collect();
    while count("fencepost-deadl") < 20 {
        std::thread::yield_now();
    }
    drop(watchers);
    let since = std::time::Instant::now();
    while count("fencepost-deadl") >= 20 {
        assert!(since.elapsed() < Duration::from_secs(60), "threads end with their watchers");
        std::thread::yield_now();
    }
}
