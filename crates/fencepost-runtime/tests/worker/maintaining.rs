//! Maintenance beside the work: one at a time, waited for by nobody, ended with the worker.

use std::time::Duration;

use fencepost_core::{Release, Slots};
use tokio::runtime::Handle;

use crate::spy::Hangs;
use crate::stage::{Stage, nothing_to_do, pass, settings};

#[tokio::test(start_paused = true)]
async fn maintenance_that_hangs_keeps_nobody_waiting() {
    let stage = Stage::new(2).await;
    let other = stage.claim(1).await.unwrap();
    stage.store.hang(Hangs::Maintenance);
    let at_first = Handle::current().metrics().num_alive_tasks();
    let worker = stage.start(settings("w1"), nothing_to_do()).await;
    stage.send(2).await;
    worker.diary.tells("acked").await;
    pass(Duration::from_secs(1)).await;
    assert_eq!(stage.store.calls("maintain"), 1);

    assert_eq!(stage.store.release_slot(&other.token).await.unwrap(), Release::Released);
    pass(Duration::from_secs(1)).await;
    assert_eq!(worker.diary.count("claimed 1"), 1, "slots are claimed meanwhile");
    for _ in 0..20 {
        stage.send(2).await;
        pass(Duration::from_secs(2)).await;
    }
    assert_eq!(stage.store.calls("maintain"), 1, "there is no second one");
    worker.stop().await;
    pass(Duration::from_millis(1)).await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), at_first, "it ends with the worker");
}

#[tokio::test(start_paused = true)]
async fn maintenance_follows_acks() {
    let stage = Stage::new(1).await;
    let worker = stage.start(settings("w1"), nothing_to_do()).await;
    pass(Duration::from_secs(5)).await;
    assert_eq!(stage.store.calls("maintain"), 0, "nothing was acked");
    stage.send(1).await;
    pass(Duration::from_secs(5)).await;
    assert_eq!(stage.store.calls("maintain"), 1);
    worker.stop().await;
}
