//! SQLite against the model: random calls on both come out alike.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fencepost_conformance::differential::{Plan, Side, compare};
use fencepost_core::ManualClock;
use fencepost_mem::MemStore;
use fencepost_sqlite::{SqliteOptions, SqliteStore};

fn model() -> Side {
    let clock = Arc::new(ManualClock::default());
    Side::new(Arc::new(MemStore::new(clock.clone())), clock)
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_does_not_differ_from_the_model() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let opened = AtomicU32::new(0);
    let sqlite = async || {
        let clock = Arc::new(ManualClock::default());
        let path = folder.path().join(format!("{}.db", opened.fetch_add(1, Ordering::Relaxed)));
        let options = SqliteOptions::default().create(true).clock(clock.clone());
        Side::new(Arc::new(SqliteStore::open(path, options).await.expect("a fresh store opens")), clock)
    };
    let plan = Plan { seed: 1, sequences: 30, length: 200 };
    compare(plan.asked(), async || [model(), sqlite().await]).await.unwrap();
}
