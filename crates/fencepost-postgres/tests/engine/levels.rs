//! Callers above READ COMMITTED: every call is refused with a hint, or right whatever its snapshot shows, or told to try again.

use fencepost_core::{
    BatchId, ClaimSlot, ConsumerPath, Consumers, CreateConsumer, Epoch, Kind, Members, NewMessage, Partitions,
    QueueName, Queues, SlotCount, SlotIndex, SlotToken, Slots, WorkerName,
};
use fencepost_postgres::PostgresStore;

use crate::script::{Own, Script, call, receive, run, value};
use crate::stage::options;

const LEVELS: [&str; 2] = ["repeatable read", "serializable"];

/// A50: what judges by the newest state is refused, in a transaction begun at another level and by the session's default, and changes
/// nothing.
#[tokio::test]
async fn a50_calls_that_cannot_be_right_are_refused_with_a_hint() {
    let Some(script) = Script::new(2).await else { return };
    script.send(4).await;
    let token = script.claim(0).await;
    let (batch, ids) = receive(&script.admin, token, 10).await.expect("a batch");
    let own = token.arguments();
    let calls = [
        "claim('q', 'c', 'w')".to_owned(),
        "claim_slot('q', 'c', 1, 'w')".to_owned(),
        format!("receive({own})"),
        format!("ack_receive({own}, {batch})"),
        format!("nack({own}, {batch}, {})", ids[0]),
        format!("snooze({own}, {batch}, {}, '1 s')", ids[0]),
        format!("dead_letter({own}, {batch}, {}, 'no')", ids[0]),
        format!("renew_slot({own})"),
        format!("renew_slots('q', 'c', array[{}], array[{}::bigint])", token.slot, token.epoch),
        format!("release_slot({own})"),
        format!("abandon_slot({own})"),
        "force_release_slot('q', 'c', 0, 'an operator')".to_owned(),
        "create_queue('r')".to_owned(),
        "drop_queue('q', true)".to_owned(),
        "create_consumer('q', 'd')".to_owned(),
        "drop_consumer('q', 'c', true)".to_owned(),
        "dead_replay('q', 'c')".to_owned(),
        "send_once('q', 'x', 'key')".to_owned(),
        "maintain()".to_owned(),
    ];
    let before = script.state(0).await;
    let client = script.client().await;
    for level in LEVELS {
        for sql in &calls {
            run(&client, &format!("begin isolation level {level}")).await;
            let begun = call(&client, &format!("select * from fencepost.{sql}")).await.map(|rows| rows.len());
            run(&client, &format!("rollback; set default_transaction_isolation = '{level}'")).await;
            let by_default = call(&client, &format!("select * from fencepost.{sql}")).await.map(|rows| rows.len());
            run(&client, "reset default_transaction_isolation").await;
            for answer in [begun, by_default] {
                let error = answer.expect_err(sql);
                assert_eq!(
                    (error.kind(), error.fact("isolation")),
                    (Kind::Unsupported, Some(level)),
                    "{sql}: {error:?}"
                );
                assert!(error.hint().is_some_and(|hint| hint.contains("READ COMMITTED")), "{error:?}");
            }
        }
    }
    assert_eq!(script.state(0).await, before);
}

/// A50: a store whose sessions begin at another level works as any other, forty at once too.
#[tokio::test(flavor = "multi_thread")]
async fn a50_a_store_says_the_level_that_its_calls_take() {
    let Some(script) = Script::new(1).await else { return };
    for level in LEVELS {
        let name = script.stage.database.name();
        run(&script.admin, &format!("alter database {name} set default_transaction_isolation = '{level}'")).await;
        let patient = options().pool_timeout(std::time::Duration::from_secs(60));
        let store = PostgresStore::open(&script.stage.database.url(), patient).await.unwrap();
        let path = ConsumerPath::new(level.replace(' ', "-"), "c").unwrap();
        let mut creates = Vec::new();
        for _ in 0..40 {
            let (store, path) = (store.clone(), path.clone());
            creates.push(tokio::spawn(async move {
                store.create_queue(&path.queue, Partitions::default()).await?;
                store.create_consumer(&CreateConsumer::ordered(path.clone(), SlotCount::new(2)?)).await
            }));
        }
        for created in creates {
            created.await.unwrap().unwrap();
        }
        let mut done = 0;
        for _ in 0..5 {
            store.send(&path.queue, NewMessage::new("x").unwrap()).await.unwrap();
        }
        for slot in 0..2 {
            let request = ClaimSlot::new(path.clone(), WorkerName::new("w").unwrap());
            let grant = store.claim_slot(&request, SlotIndex::new(slot).unwrap()).await.unwrap().unwrap();
            while let Some(batch) = store.receive(&grant.token, fencepost_core::BatchSize::default()).await.unwrap() {
                done += store.ack(&grant.token, batch.id).await.unwrap();
            }
            assert_eq!(store.release_slot(&grant.token).await.unwrap(), fencepost_core::Release::Released);
        }
        assert_eq!(done, 5, "{level}");
        store.maintain(Some(&QueueName::new(path.queue.as_str()).unwrap())).await.unwrap();
        assert!(store.members(&path).await.unwrap().is_empty());
    }
}

/// A call that is refused has let go of what it had locked, also where it takes a transaction to say its level.
#[tokio::test]
async fn a_refused_call_has_let_go_at_every_level() {
    let Some(script) = Script::new(1).await else { return };
    script.send(1).await;
    let own = script.claim(0).await;
    let (batch, _) = receive(&script.admin, own, 10).await.expect("a batch");
    let path = ConsumerPath::new("q", "c").unwrap();
    let token =
        SlotToken { path, slot: SlotIndex::new(own.slot.into()).unwrap(), epoch: Epoch::new(own.epoch).unwrap() };
    for level in ["read committed", "repeatable read"] {
        let name = script.stage.database.name();
        run(&script.admin, &format!("alter database {name} set default_transaction_isolation = '{level}'")).await;
        let store = PostgresStore::open(&script.stage.database.url(), options()).await.unwrap();
        // One that is refused for its level makes the store say it.
        store.renew_slot(&token).await.unwrap();
        for _ in 0..50 {
            let error = store.ack(&token, BatchId::new(batch + 1).unwrap()).await.unwrap_err();
            assert_eq!(error.kind(), Kind::Conflict, "{error:?}");
            run(&script.admin, "select from fencepost.slot for update nowait").await;
        }
    }
}

/// What happens to a slot between a transaction's snapshot and its ack.
const BETWEEN: [(&str, bool); 8] = [
    ("nothing", true),
    ("renew_slot({})", false),
    ("nack({}, {batch}, {id}, '1 h')", false),
    ("ack_through({}, {batch}, {id})", false),
    ("ack({}, {batch})", false),
    ("abandon_slot({})", false),
    ("a takeover", false),
    ("a replay", false),
];

async fn happens(script: &Script, what: &str, own: Own, batch: i64, id: i64) {
    match what {
        "nothing" => {}
        "a takeover" => {
            script.stage.pass(11);
            script.claim(0).await;
        }
        // Of a dead letter of the same consumer.
        "a replay" => assert_eq!(value::<i32>(&script.admin, "select fencepost.dead_replay('q', 'c')").await, 1),
        call => {
            let sql = call
                .replace("{}", &own.arguments())
                .replace("{batch}", &batch.to_string())
                .replace("{id}", &id.to_string());
            run(&script.admin, &format!("select fencepost.{sql}")).await;
        }
    }
}

/// A50: an ack, ack_through and a guard with an old snapshot are right, or told to try again; tried again they are answered as any other.
#[tokio::test]
async fn a50_an_ack_with_an_old_snapshot_is_right_or_tries_again() {
    let Some(script) = Script::new(1).await else { return };
    for level in LEVELS {
        for (what, is_right) in BETWEEN {
            for late in ["ack({}, {batch})", "ack_through({}, {batch}, {last})", "slot_guard({})"] {
                script.anew(1).await;
                script.send(1).await;
                let own = script.claim(0).await;
                let (batch, ids) = receive(&script.admin, own, 10).await.expect("a batch");
                for sql in [
                    format!("dead_letter({}, {batch}, {}, 'no')", own.arguments(), ids[0]),
                    format!("ack({}, {batch})", own.arguments()),
                ] {
                    run(&script.admin, &format!("select fencepost.{sql}")).await;
                }
                script.send(3).await;
                let (batch, ids) = receive(&script.admin, own, 10).await.expect("a batch");
                let client = script.client().await;
                run(&client, &format!("begin isolation level {level}; select count(*) from fencepost.slot")).await;
                happens(&script, what, own, batch, ids[0]).await;
                let sql = late.replace("{}", &own.arguments()).replace("{batch}", &batch.to_string());
                let sql = format!("select fencepost.{}", sql.replace("{last}", &ids[2].to_string()));
                let before = script.state(0).await;
                let answer = call(&client, &sql).await;
                match answer {
                    Ok(rows) if late.starts_with("slot_guard") => assert!(is_right, "{what}: {rows:?}"),
                    Ok(rows) => assert!(is_right && rows[0].get::<_, i32>(0) == 3, "{level}, {what}, {late}: {rows:?}"),
                    Err(error) => {
                        assert!(!is_right, "{level}, {what}, {late}: {error:?}");
                        assert_eq!(
                            (error.kind(), error.code()),
                            (Kind::Busy, "serialization_failure"),
                            "{what}, {late}: {error:?}"
                        );
                    }
                }
                run(&client, "rollback").await;
                assert_eq!(script.state(0).await, before, "{what}, {late}");
            }
        }
    }
}
