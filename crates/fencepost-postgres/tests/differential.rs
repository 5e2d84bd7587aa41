//! PostgreSQL against the model: random calls on both come out alike (B32; SQLite has the same test).

#[path = "stage/mod.rs"]
mod stage;

use std::sync::Arc;

use fencepost_conformance::differential::{Plan, Side, compare};
use fencepost_core::ManualClock;
use fencepost_mem::MemStore;
use tokio::sync::Mutex;

use crate::stage::Stage;

fn model() -> Side {
    let clock = Arc::new(ManualClock::default());
    Side::new(Arc::new(MemStore::new(clock.clone())), clock)
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_does_not_differ_from_the_model() {
    let Some(first) = Stage::new().await else { return };
    // The database of a sequence goes when the next one begins.
    let last = Mutex::new(first);
    let postgres = async || {
        let stage = Stage::new().await.expect("a fresh store");
        let side = Side::new(Arc::new(stage.store.clone()), stage.clock.clone());
        let before = std::mem::replace(&mut *last.lock().await, stage);
        before.judge_aside().await;
        side
    };
    let plan = Plan { seed: 1, sequences: 5, length: 150 };
    compare(plan.asked(), async || [model(), postgres().await]).await.unwrap();
    last.lock().await.judge_aside().await;
}
