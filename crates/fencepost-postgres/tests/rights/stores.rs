//! The engine as a role with a single right opens it: everything that the right is for works, and the rest is refused as such.

use std::time::Duration;

use fencepost_core::{
    AcquireLease, Acquired, BatchSize, ChannelName, ClaimSlot, ConsumerPath, Consumers, DeadLetters, Delay, Failure,
    FailureText, Heartbeat, HolderName, IdempotencyKey, LeaseName, Leases, Members, NewMessage, Nonce, Notice,
    NoticePayload, Notices, OnceTtl, Partitions, QueueName, Queues, Readers, Reason, Release, Renewal, Slots, Start,
    Topic, Wakeups, WorkerName,
};
use fencepost_postgres::{PostgresStore, TransactionCalls};

use crate::ground::Ground;
use crate::stage::{options, ttl};

async fn opened(ground: &Ground, role: &str) -> PostgresStore {
    PostgresStore::open(&ground.url(role), options().pool_size(2)).await.unwrap()
}

fn path(queue: &str) -> ConsumerPath {
    ConsumerPath::new(queue, "c").unwrap()
}

fn message(text: &str) -> NewMessage {
    NewMessage::new(text).unwrap()
}

fn refused<T: std::fmt::Debug>(answer: fencepost_core::Result<T>) {
    let error = answer.expect_err("it is not granted");
    assert_eq!(error.code(), "permission_denied", "{error:?}");
}

#[tokio::test]
async fn a_producer_of_one_queue_sends_to_it() {
    let Some(ground) = Ground::new().await else { return };
    let store = opened(&ground, "producer").await;
    let (own, other) = (path("own").queue, path("other").queue);
    let before = ground.stored("other").await;
    store.now().await.unwrap();
    let first = store.send(&own, message("a")).await.unwrap();
    let later = message("later").delay(Delay::new(Duration::from_secs(3_600)).unwrap());
    store.send(&own, later).await.unwrap();
    let ids = store.send_batch(&own, vec![message("b"), message("c")]).await.unwrap();
    assert!(ids[0] > first && ids[1] > ids[0]);
    // More than goes in one round trip.
    let big: Vec<_> = (0..9).map(|_| NewMessage::new(vec![0; 1 << 20]).unwrap()).collect();
    assert_eq!(store.send_batch(&own, big).await.unwrap().len(), 9);
    let key = IdempotencyKey::new("k").unwrap();
    let once = store.send_once(&own, message("o"), &key, OnceTtl::default()).await.unwrap();
    let again = store.send_once(&own, message("o"), &key, OnceTtl::default()).await.unwrap();
    assert_eq!((once.deduplicated, again.deduplicated, again.id), (false, true, once.id));
    let mut client = store.client().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.send_in(&own, &message("t")).await.unwrap();
    transaction
        .send_once_in(&own, &message("t"), &IdempotencyKey::new("t").unwrap(), OnceTtl::default())
        .await
        .unwrap();
    transaction.commit_whole().await.unwrap();
    refused(store.send(&other, message("x")).await);
    refused(store.send_batch(&other, vec![message("x"), message("y")]).await);
    refused(store.send_once(&other, message("x"), &key, OnceTtl::default()).await);
    refused(store.claim(&ClaimSlot::new(path("own"), WorkerName::new("w").unwrap())).await);
    refused(store.read(&own, Start::Earliest, BatchSize::default()).await);
    refused(store.create_queue(&QueueName::new("mine").unwrap(), Partitions::default()).await);
    assert!(store.queue_status().await.unwrap().is_empty());
    assert_eq!(ground.stored("other").await, before);
    store.close().await;
    ground.clear().await;
}

#[tokio::test]
async fn a_consumer_of_one_queue_works_on_it() {
    let Some(ground) = Ground::new().await else { return };
    ground.run("select fencepost.drop_consumer('own', 'c', true), fencepost.create_consumer('own', 'c', start => 'latest')").await;
    let store = opened(&ground, "consumer").await;
    let (own, before) = (path("own"), ground.stored("other").await);
    let sleeper = store.wakes(&Topic::Messages(own.queue.clone()));
    let claim = |queue| ClaimSlot::new(path(queue), WorkerName::new("w").unwrap()).ttl(ttl(30));
    let grant = store.claim(&claim("own")).await.unwrap().expect("it is free");
    let token = &grant.token;
    let member = Nonce::new("m").unwrap();
    let heartbeat = Heartbeat {
        path: own.clone(),
        member: member.clone(),
        worker: WorkerName::new("w").unwrap(),
        ttl: ttl(30),
        held: vec![(token.slot, token.epoch)],
    };
    assert_eq!(store.heartbeat(&heartbeat).await.unwrap().held, [Renewal::Held]);
    assert_eq!(store.members(&own).await.unwrap().len(), 1);
    assert!(store.receive(token, BatchSize::default()).await.unwrap().is_none());
    // Somebody else sends: the sleeper is woken as any other.
    let send = "select fencepost.send('own', n::text) from generate_series(1, 4) n";
    ground.run(send).await;
    woken(sleeper).await;
    let batch = store.receive(token, BatchSize::new(2).unwrap()).await.unwrap().expect("messages wait");
    let text = |reason: &str| FailureText::new(reason).unwrap();
    let failure = Failure { retry_after: None, reason: Some(text("why")) };
    store.nack(token, batch.id, batch.messages[0].id, &failure).await.unwrap();
    store.snooze(token, batch.id, batch.messages[0].id, Delay::new(Duration::ZERO).unwrap()).await.unwrap();
    store.dead_letter(token, batch.id, batch.messages[1].id, &text("never")).await.unwrap();
    let next = store.ack_receive(token, batch.id, BatchSize::default()).await.unwrap().next.expect("the rest");
    assert_eq!(next.messages.len(), 3);
    assert_eq!(store.renew_slot(token).await.unwrap(), Renewal::Held);
    store.ack_through(token, next.id, next.messages[0].id).await.unwrap();
    let mut client = store.client().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.slot_guard_in(token).await.unwrap();
    transaction.ack_in(token, next.id).await.unwrap();
    transaction.commit_whole().await.unwrap();
    assert_eq!(store.dead_letters(&own, None, BatchSize::default()).await.unwrap().len(), 2);
    assert_eq!(store.next_due(&own, token.slot).await.unwrap().map(|due| due > Duration::ZERO), Some(true));
    store.maintain(Some(&own.queue)).await.unwrap();
    store.maintain(None).await.unwrap();
    assert!(store.slot_history(&own).await.unwrap().is_empty());
    let statuses = (
        store.queue_status().await.unwrap().len(),
        store.consumer_status(None).await.unwrap().len(),
        store.consumer_status(Some(&own.queue)).await.unwrap().len(),
        store.slot_status(None).await.unwrap().len(),
        store.dead_counts(None).await.unwrap().len(),
    );
    assert_eq!(statuses, (1, 1, 1, 1, 1));
    ground.run(send).await;
    let page = store.read(&own.queue, Start::Earliest, BatchSize::default()).await.unwrap();
    assert!(page.messages.len() >= 4);
    let rest = store.read(&own.queue, Start::After(page.next), BatchSize::default()).await.unwrap();
    assert!(rest.messages.is_empty());
    store.leave(&own, &member).await.unwrap();
    assert_eq!(store.release_slot(token).await.unwrap(), Release::Released);
    let grant = store.claim_slot(&claim("own"), token.slot).await.unwrap().expect("it is free");
    assert_eq!(store.abandon_slot(&grant.token).await.unwrap(), Release::Released);

    let other = path("other");
    refused(store.claim(&claim("other")).await);
    refused(store.read(&other.queue, Start::Earliest, BatchSize::default()).await);
    refused(store.slot_status(Some(&other.queue)).await);
    refused(store.members(&other).await);
    refused(store.maintain(Some(&other.queue)).await);
    refused(store.send(&own.queue, message("x")).await);
    refused(store.force_release_slot(&own, token.slot, &Reason::new("why").unwrap()).await);
    refused(store.purge_dead_letters(&own, None).await);
    assert_eq!(ground.stored("other").await, before);
    store.check().await.unwrap();
    store.close().await;
    ground.clear().await;
}

/// Waits until a sleeper is woken.
async fn woken(mut sleeper: fencepost_core::WakeReceiver) {
    tokio::time::timeout(Duration::from_secs(30), sleeper.woken())
        .await
        .expect("it is woken")
        .expect("the store is open");
}

#[tokio::test]
async fn a_holder_of_a_prefix_holds_its_leases() {
    let Some(ground) = Ground::new().await else { return };
    let store = opened(&ground, "holder").await;
    let acquire =
        |name: &str| AcquireLease::new(LeaseName::new(name).unwrap(), HolderName::new("h").unwrap()).ttl(ttl(30));
    let Acquired::Granted { token, .. } = store.acquire_lease(&acquire("own/y")).await.unwrap() else {
        panic!("it is free");
    };
    assert_eq!(store.renew_lease(&token, None).await.unwrap(), Renewal::Held);
    let mut client = store.client().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.guard_in(&token).await.unwrap();
    transaction.commit_whole().await.unwrap();
    assert!(store.lease(&token.name).await.unwrap().is_some());
    let seen: Vec<_> = store.lease_status().await.unwrap().into_iter().map(|lease| lease.name.to_string()).collect();
    assert_eq!(seen, ["own/x", "own/y"]);
    let sleeper = store.wakes(&Topic::Lease(LeaseName::new("own/x").unwrap()));
    assert!(matches!(store.acquire_lease(&acquire("own/x")).await.unwrap(), Acquired::Held { .. }));
    ground.run("select fencepost.lease_force_release('own/x', 'why')").await;
    woken(sleeper).await;
    assert_eq!(store.lease_history(&LeaseName::new("own/x").unwrap()).await.unwrap().len(), 1);
    assert_eq!(store.release_lease(&token).await.unwrap(), Release::Released);
    refused(store.acquire_lease(&acquire("other/y")).await);
    refused(store.lease(&LeaseName::new("other/x").unwrap()).await);
    refused(store.force_release_lease(&token.name, &Reason::new("why").unwrap()).await);
    store.close().await;
    ground.clear().await;
}

/// Who notifies is a member of the producers, who listens one of the consumers; neither is the other, and nobody else is either.
#[tokio::test]
async fn notices_are_for_members_of_the_clusters_roles() {
    let Some(ground) = Ground::new().await else { return };
    let (channel, payload) = (ChannelName::new("c").unwrap(), NoticePayload::new("x").unwrap());
    let holder = opened(&ground, "holder").await;
    refused(holder.listen(&channel).await);
    refused(holder.notify(&channel, &payload).await);
    for of in ["producer", "consumer"] {
        ground.run(&format!("grant fencepost_{of} to {}", ground.role(of))).await;
    }
    let (sender, listener) = (opened(&ground, "producer").await, opened(&ground, "consumer").await);
    refused(sender.listen(&channel).await);
    refused(listener.notify(&channel, &payload).await);
    let mut receiver = listener.listen(&channel).await.unwrap();
    sender.notify(&channel, &payload).await.unwrap();
    let heard = tokio::time::timeout(Duration::from_secs(30), receiver.next()).await.expect("it comes").unwrap();
    assert!(matches!(heard, Notice::Payload { payload: heard, .. } if heard == payload));
    for store in [holder, sender, listener] {
        store.close().await;
    }
    ground.clear().await;
}
