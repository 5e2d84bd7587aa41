//! The functions of single queues: who may not call them calls those of all queues, and their numbers are those of the server at the
//! other end.

use fencepost_core::{
    BatchSize, ClaimSlot, ConsumerPath, Consumers, CreateConsumer, Delay, Kind, MessageId, NewMessage, Partitions,
    QueueName, Queues, SlotCount, Slots, WorkerName,
};
use fencepost_postgres::PostgresStore;

use crate::script::{run, value};
use crate::stage::{Stage, options, until};

fn message(text: &str) -> NewMessage {
    NewMessage::new(text).unwrap()
}

/// A grant on all functions is one on those that are there: of a queue that is made later the role may call none of its own.
#[tokio::test]
async fn a_role_sends_to_and_receives_from_a_queue_made_after_the_grants() {
    let Some(stage) = Stage::new().await else { return };
    let (database, admin) = (&stage.database, stage.client().await);
    let user = format!("app_of_{}", database.name());
    run(
        &admin,
        &format!(
            "create role {user} login password 'secret'; grant usage on schema fencepost to {user}; \
             grant execute on all functions in schema fencepost to {user}; grant select on all tables in schema fencepost to {user}"
        ),
    )
    .await;
    let path = ConsumerPath::new("orders", "billing").unwrap();
    stage.store.create_queue(&path.queue, Partitions::default()).await.unwrap();
    stage.store.create_consumer(&CreateConsumer::ordered(path.clone(), SlotCount::new(1).unwrap())).await.unwrap();
    let url = format!("postgres://{user}:secret@{}/{}", database.server().address(), database.name());
    let store = PostgresStore::open(&url, options().pool_size(1)).await.unwrap();
    let mut sent = vec![store.send(&path.queue, message("plain")).await.unwrap()];
    sent.extend(store.send_batch(&path.queue, vec![message("b"), message("c")]).await.unwrap());
    let later = message("later").delay(Delay::new(std::time::Duration::from_secs(3_600)).unwrap());
    store.send(&path.queue, later).await.unwrap();
    let grant = store.claim(&ClaimSlot::new(path.clone(), WorkerName::new("w").unwrap())).await.unwrap().unwrap();
    let (one, all) = (BatchSize::new(1).unwrap(), BatchSize::default());
    let first = store.receive(&grant.token, one).await.unwrap().unwrap();
    let rest = store.ack_receive(&grant.token, first.id, all).await.unwrap();
    let received: Vec<MessageId> =
        first.messages.iter().chain(&rest.next.unwrap().messages).map(|message| message.id).collect();
    assert_eq!(received, sent);
    let error = store.send(&QueueName::new("missing").unwrap(), message("x")).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound, "{error:?}");
    store.close().await;
    run(&admin, &format!("drop owned by {user} cascade; drop role {user}")).await;
}

/// On a server that took over, or was restored, a number may stand for another queue. What was learned before is not used there.
#[tokio::test]
async fn a_number_is_not_used_on_another_connection_than_it_was_learned_on() {
    let Some(stage) = Stage::new().await else { return };
    let url = format!("{}?application_name=learner", stage.database.url());
    let store = PostgresStore::open(&url, options().pool_size(1)).await.unwrap();
    let (a, b) = (QueueName::new("a").unwrap(), QueueName::new("b").unwrap());
    for queue in [&a, &b] {
        store.create_queue(queue, Partitions::default()).await.unwrap();
        store.send(queue, message("x")).await.unwrap();
    }
    let admin = stage.client().await;
    let number = async || value::<i32>(&admin, "select id from fencepost.queue where name = 'a'").await;
    let before = number().await;
    // Another history, in which the queues were made in another order.
    for (from, to) in [("a", "c"), ("b", "a"), ("c", "b")] {
        run(&admin, &format!("update fencepost.queue set name = '{to}' where name = '{from}'")).await;
    }
    let after = number().await;
    assert_ne!(before, after);
    let sessions = "from pg_stat_activity where application_name = 'learner'";
    run(&admin, &format!("select pg_terminate_backend(pid) {sessions}")).await;
    let gone = format!("select count(*) {sessions}");
    until("its sessions are gone", async || value::<i64>(&admin, &gone).await == 0).await;
    until("it has noticed", async || store.send(&a, message("y")).await.is_ok()).await;
    let stored = async |number: i32| {
        value::<i64>(&admin, &format!("select count(*) from fencepost.q{number}_0 where payload = 'y'")).await
    };
    assert_eq!((stored(before).await, stored(after).await), (0, 1));
}
