//! A consumer lags for a day.

use std::time::Duration;

use fencepost_core::{Consumers, Queues};

use crate::script::{Script, call, claim, own, receive, run};

const DAY: u64 = 86_400;

/// One consumer acks, another one stands still for a day: the queue keeps what that has not acked, however much maintenance runs, and says which
/// one it is, since when and how much; once it has caught up everything goes.
#[tokio::test]
async fn b31_a_consumer_that_lags_for_a_day_keeps_its_messages_and_is_named() {
    let Some(script) = Script::new(1).await else { return };
    let store = &script.stage.store;
    run(&script.admin, "select fencepost.create_consumer('q', 'slow')").await;
    let drain = async |consumer: &str| {
        let sql = format!("select slot, epoch from fencepost.claim('q', '{consumer}', 'w', '10 s')");
        let token = own(&call(&script.admin, &sql).await.unwrap()).expect("the slot is free or expired");
        let arguments = format!("'q', '{consumer}', {}, {}", token.slot, token.epoch);
        let mut taken = 0;
        loop {
            let sql = format!("select batch_id from fencepost.receive({arguments}, 50)");
            let rows = call(&script.admin, &sql).await.unwrap();
            let Some(row) = rows.first() else { break };
            taken += rows.len();
            run(&script.admin, &format!("select fencepost.ack({arguments}, {})", row.get::<_, i64>(0))).await;
        }
        taken
    };
    for _ in 0..24 {
        script.send(20).await;
        assert_eq!(drain("c").await, 20);
        script.stage.pass(DAY / 24);
        run(&script.admin, "select fencepost.maintain()").await;
    }
    let (now, queue) = (store.now().await.unwrap(), store.queue_status().await.unwrap().remove(0));
    assert_eq!(queue.stored, 480);
    let consumers = store.consumer_status(None).await.unwrap();
    let told: Vec<_> = consumers
        .iter()
        .map(|told| (told.path.consumer.as_str(), told.lag, told.first_at.map(|at| now.since(at))))
        .collect();
    assert_eq!(told, [("c", 0, None), ("slow", 480, Some(Duration::from_secs(DAY)))]);

    // An open batch alone keeps as much.
    let stuck = claim(&script.admin, 0).await.expect("its owner has expired");
    script.send(1).await;
    receive(&script.admin, stuck, 1).await.expect("a batch");
    assert_eq!(drain("slow").await, 481);
    run(&script.admin, "select fencepost.maintain()").await;
    assert_eq!(store.queue_status().await.unwrap()[0].stored, 1);
    script.stage.pass(60);
    assert_eq!(drain("c").await, 1);
    run(&script.admin, "select fencepost.maintain()").await;
    assert_eq!(store.queue_status().await.unwrap()[0].stored, 0);
}

/// B19: what commits late, behind the cursor, is counted as lag from its commit on, once, and since when it was sent.
#[tokio::test]
async fn b19_a_late_commit_is_counted_as_lag() {
    let Some(script) = Script::new(1).await else { return };
    let store = &script.stage.store;
    let late = script.client().await;
    run(&late, "begin; select fencepost.send('q', 'late')").await;
    script.stage.pass(60);
    script.send(3).await;
    let token = script.claim(0).await;
    let (batch, ids) = receive(&script.admin, token, 10).await.expect("a batch");
    assert_eq!(ids.len(), 3);
    run(&script.admin, &format!("select fencepost.ack({}, {batch})", token.arguments())).await;
    let told = async || {
        let told = store.consumer_status(None).await.unwrap().remove(0);
        (told.lag, told.first_at)
    };
    assert_eq!(told().await, (0, None));
    let now = store.now().await.unwrap();
    run(&late, "commit").await;
    let (lag, first_at) = told().await;
    assert_eq!((lag, first_at.map(|at| now.since(at).as_secs())), (1, Some(60)));
    let (batch, ids) = receive(&script.admin, token, 10).await.expect("the late one");
    assert_eq!(ids.len(), 1);
    run(&script.admin, &format!("select fencepost.ack({}, {batch})", token.arguments())).await;
    assert_eq!(told().await, (0, None));
}
