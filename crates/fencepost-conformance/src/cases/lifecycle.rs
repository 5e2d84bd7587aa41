//! What every call answers when what it names is not there, or the store is closed.

use fencepost_core::{
    AcquireLease, BatchId, ChannelName, ClaimSlot, ConsumerPath, CreateConsumer, Epoch, Error, Heartbeat, HolderName,
    IdempotencyKey, Kind, LeaseName, LeaseToken, MessageId, NoticePayload, OnceTtl, Partitions, Reason, Result,
    Retention, Retry, SlotToken, Start, Store,
};

use crate::Harness;
use crate::stage::{Stage, count, delay, failure, index, nonce, path, size, text, ttl, why, worker, writes_nothing};

/// A call's name in the contract, and its error if it failed.
type Answer = (&'static str, Option<Error>);

/// The calls that name a queue, with the error that each answers.
async fn calls_on_a_queue(store: &dyn Store, path: &ConsumerPath) -> Vec<Answer> {
    let queue = &path.queue;
    let once = IdempotencyKey::new("k").unwrap();
    vec![
        ("send", store.send(queue, text("x")).await.err()),
        ("send_batch", store.send_batch(queue, vec![text("x"), text("y")]).await.err()),
        ("send_once", store.send_once(queue, text("x"), &once, OnceTtl::default()).await.err()),
        ("pause_queue", store.pause_queue(queue).await.err()),
        ("resume_queue", store.resume_queue(queue).await.err()),
        ("set_retention", store.set_retention(queue, Retention::default()).await.err()),
        ("maintain", store.maintain(Some(queue)).await.err()),
        ("read", store.read(queue, Start::Earliest, size(1)).await.err()),
        ("dead_letters", store.dead_letters(path, None, size(1)).await.err()),
        ("dead_counts", store.dead_counts(Some(queue)).await.err()),
        ("purge_dead_letters", store.purge_dead_letters(path, None).await.err()),
        ("create_consumer", store.create_consumer(&CreateConsumer::ordered(path.clone(), count(1))).await.err()),
        ("consumer_status", store.consumer_status(Some(queue)).await.err()),
        ("slot_status", store.slot_status(Some(queue)).await.err()),
    ]
}

/// The calls that name a consumer's slot.
async fn calls_on_a_slot(store: &dyn Store, token: &SlotToken) -> Vec<Answer> {
    let claim = ClaimSlot::new(token.path.clone(), worker("w"));
    let (batch, message) = (BatchId::new(1).unwrap(), MessageId::new(1).unwrap());
    vec![
        ("claim_slot", store.claim_slot(&claim, token.slot).await.err()),
        ("receive", store.receive(token, size(1)).await.err()),
        ("ack", store.ack(token, batch).await.err()),
        ("ack_through", store.ack_through(token, batch, message).await.err()),
        ("ack_receive", store.ack_receive(token, batch, size(1)).await.err()),
        ("nack", store.nack(token, batch, message, &failure(0)).await.err()),
        ("snooze", store.snooze(token, batch, message, delay(0)).await.err()),
        ("dead_letter", store.dead_letter(token, batch, message, &why("x")).await.err()),
        ("next_due", store.next_due(&token.path, token.slot).await.err()),
        ("force_release_slot", store.force_release_slot(&token.path, token.slot, &reason()).await.err()),
        ("renew_slot", store.renew_slot(token).await.err()),
        ("release_slot", store.release_slot(token).await.err()),
        ("abandon_slot", store.abandon_slot(token).await.err()),
    ]
}

/// The calls that name a consumer, but no slot.
async fn calls_on_a_consumer(store: &dyn Store, path: &ConsumerPath) -> Vec<Answer> {
    let claim = ClaimSlot::new(path.clone(), worker("w"));
    let (member, held) = (nonce("m"), vec![]);
    let beat = Heartbeat { path: path.clone(), member, worker: worker("w"), ttl: ttl(10), held };
    vec![
        ("claim", store.claim(&claim).await.err()),
        ("heartbeat", store.heartbeat(&beat).await.err()),
        ("members", store.members(path).await.err()),
        ("slot_history", store.slot_history(path).await.err()),
        ("replay_dead_letters", store.replay_dead_letters(path, None).await.err()),
    ]
}

/// The calls that find nothing wrong with what is not there.
async fn other_calls(store: &dyn Store, path: &ConsumerPath, epoch: Epoch) -> Vec<Answer> {
    let name = LeaseName::new("l").unwrap();
    let token = LeaseToken { name: name.clone(), epoch };
    let acquire = AcquireLease::new(name, HolderName::new("a").unwrap());
    let channel = ChannelName::new("c").unwrap();
    vec![
        ("acquire_lease", store.acquire_lease(&acquire).await.err()),
        ("renew_lease", store.renew_lease(&token, None).await.err()),
        ("release_lease", store.release_lease(&token).await.err()),
        ("lease", store.lease(&token.name).await.err()),
        ("lease_status", store.lease_status().await.err()),
        ("force_release_lease", store.force_release_lease(&token.name, &reason()).await.err()),
        ("lease_history", store.lease_history(&token.name).await.err()),
        ("drop_queue", store.drop_queue(&path.queue, false).await.err()),
        ("create_queue", store.create_queue(&path.queue, Partitions::default()).await.err()),
        ("queue_status", store.queue_status().await.err()),
        ("maintain", store.maintain(None).await.err()),
        ("dead_counts", store.dead_counts(None).await.err()),
        ("drop_consumer", store.drop_consumer(path, true).await.err()),
        ("consumer_status", store.consumer_status(None).await.err()),
        ("slot_status", store.slot_status(None).await.err()),
        ("leave", store.leave(path, &nonce("m")).await.err()),
        ("notify", store.notify(&channel, &NoticePayload::new("x").unwrap()).await.err()),
        ("listen", store.listen(&channel).await.err()),
        ("now", store.now().await.err()),
    ]
}

fn reason() -> Reason {
    Reason::new("a reason").unwrap()
}

fn token(path: ConsumerPath, slot: i64) -> SlotToken {
    SlotToken { path, slot: index(slot), epoch: Epoch::new(1).unwrap() }
}

/// Checks that every call was refused so, under its own name, and that each message names what it was about.
fn all_refused(answers: Vec<Answer>, kind: Kind, code: &str, named: &[&str]) {
    for (call, error) in answers {
        let error = error.unwrap_or_else(|| panic!("{call} was not refused"));
        assert_eq!((error.kind(), error.code()), (kind, code), "{call}: {error:?}");
        assert_eq!(error.operation(), Some(call), "{error:?}");
        assert!(named.iter().all(|name| error.to_string().contains(name)), "{call}: {error}");
        assert_eq!(error.retry(), Retry::Never, "{call}: the same call fails again");
    }
}

/// Calls on a queue that does not exist answer `not_found`, name it, and write nothing.
pub async fn an_absent_queue_is_not_found(h: &dyn Harness) {
    let (store, path) = (h.store(), path("nowhere", "nobody"));
    let token = token(path.clone(), 0);
    let answers = writes_nothing(h, "a call on an absent queue", async {
        let mut answers = calls_on_a_queue(&*store, &path).await;
        answers.extend(calls_on_a_consumer(&*store, &path).await);
        answers.extend(calls_on_a_slot(&*store, &token).await);
        answers
    })
    .await;
    all_refused(answers, Kind::NotFound, "not_found", &["nowhere"]);
}

/// Calls on a consumer that does not exist answer `not_found`, name it, and write nothing.
pub async fn an_absent_consumer_is_not_found(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let absent = path("orders", "nobody");
    let token = token(absent.clone(), 0);
    let answers = writes_nothing(h, "a call on an absent consumer", async {
        let mut answers = calls_on_a_consumer(&*stage.store, &absent).await;
        answers.extend(calls_on_a_slot(&*stage.store, &token).await);
        answers
    })
    .await;
    all_refused(answers, Kind::NotFound, "not_found", &["orders", "nobody"]);
}

/// Calls on a slot that the consumer does not have answer `not_found` and write nothing.
pub async fn an_absent_slot_is_not_found(h: &dyn Harness) {
    let stage = Stage::new(h, 2).await;
    let token = token(stage.path.clone(), 2);
    let calls = calls_on_a_slot(&*stage.store, &token);
    let answers = writes_nothing(h, "a call on an absent slot", calls).await;
    all_refused(answers, Kind::NotFound, "not_found", &["orders", "billing", "2"]);
}

/// A closed store answers every call `unavailable` with code `store_closed`, and closing again does no harm.
pub async fn a_closed_store_answers_every_call_so(h: &dyn Harness) {
    let stage = Stage::new(h, 1).await;
    let grant = stage.claim("w1", 0, 30).await;
    let store = &*stage.store;
    store.close().await;
    store.close().await;
    let mut answers = calls_on_a_queue(store, &stage.path).await;
    answers.extend(calls_on_a_consumer(store, &stage.path).await);
    answers.extend(calls_on_a_slot(store, &grant.token).await);
    answers.extend(other_calls(store, &stage.path, grant.token.epoch).await);
    assert_eq!(answers.len(), 51);
    all_refused(answers, Kind::Unavailable, "store_closed", &[]);
    assert!(!store.info().engine.is_empty(), "what a store says of itself needs no storage");
}

/// An empty store answers what asks about everything, and says of itself what it is.
pub async fn an_empty_store_holds_nothing(h: &dyn Harness) {
    let store = h.store();
    assert_eq!(store.queue_status().await.unwrap(), []);
    assert_eq!(store.consumer_status(None).await.unwrap(), []);
    assert_eq!(store.slot_status(None).await.unwrap(), []);
    assert_eq!(store.lease_status().await.unwrap(), []);
    assert_eq!(store.dead_counts(None).await.unwrap(), []);
    let idle: Result<u64> = writes_nothing(h, "maintenance of nothing", store.maintain(None)).await;
    assert_eq!(idle.unwrap(), 0);
    let info = store.info();
    assert!(!info.location.is_empty() && !info.engine_version.is_empty() && info.schema_version >= 1, "{info:?}");
}
