//! The stage of most cases: a queue with an ordered consumer, calls that must succeed there, and the checks that cases share.

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use fencepost_core::slot::SlotState;
use fencepost_core::{
    Batch, BatchSize, ClaimSlot, ConsumerPath, CreateConsumer, Created, DeadLetter, Delay, Epoch, Error, Failure,
    FailurePolicy, FailureText, Heartbeat, Key, Kind, ManualClock, MessageId, Nacked, NewMessage, Nonce, OnFailure,
    Partitions, QueueName, QueueStatus, Result, SlotCount, SlotGrant, SlotIndex, SlotStatus, SlotToken, Start, Store,
    Timestamp, Ttl, WakeReceiver, WorkerName,
};

use crate::Harness;
use crate::dropped::poll_once;

/// A queue `orders` of 16 partitions with an ordered consumer `billing`, on the harness's first handle.
pub(crate) struct Stage {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) path: ConsumerPath,
    pub(crate) slots: SlotCount,
    pub(crate) policy: FailurePolicy,
}

impl Stage {
    pub(crate) async fn new(h: &dyn Harness, slots: i64) -> Self {
        Self::with(h, slots, FailurePolicy::default()).await
    }

    /// A stage whose consumer pauses the key of a failed message.
    pub(crate) async fn pausing(h: &dyn Harness, slots: i64) -> Self {
        Self::with(h, slots, FailurePolicy::default().on_failure(OnFailure::Pause)).await
    }

    /// A stage whose consumer treats failures so.
    pub(crate) async fn with(h: &dyn Harness, slots: i64, policy: FailurePolicy) -> Self {
        let stage = Self { policy, ..Self::bare(h, slots).await };
        assert_eq!(stage.create(Start::Earliest).await, Created::Created);
        stage
    }

    /// A stage whose consumer does not exist yet.
    pub(crate) async fn bare(h: &dyn Harness, slots: i64) -> Self {
        let (store, clock, policy) = (h.store(), h.clock(), FailurePolicy::default());
        let stage = Self { store, clock, path: path("orders", "billing"), slots: count(slots), policy };
        stage.store.create_queue(stage.queue(), Partitions::default()).await.unwrap();
        stage
    }

    pub(crate) fn queue(&self) -> &QueueName {
        &self.path.queue
    }

    /// The same stage seen through another handle.
    pub(crate) fn through(&self, store: Arc<dyn Store>) -> Self {
        Self { store, clock: self.clock.clone(), path: self.path.clone(), ..*self }
    }

    /// Another consumer of the same queue.
    pub(crate) async fn consumer(&self, name: &str, slots: i64, start: Start) -> Self {
        let mut stage = self.through(self.store.clone());
        (stage.path, stage.slots) = (path(self.queue().as_str(), name), count(slots));
        assert_eq!(stage.create(start).await, Created::Created);
        stage
    }

    pub(crate) async fn create(&self, start: Start) -> Created {
        self.store.create_consumer(&self.to_create(start)).await.unwrap()
    }

    pub(crate) fn to_create(&self, start: Start) -> CreateConsumer {
        CreateConsumer::ordered(self.path.clone(), self.slots).start(start).policy(self.policy)
    }

    /// So many keys of partitions that the slot owns.
    pub(crate) fn keys(&self, slot: i64, many: usize) -> Vec<Key> {
        let owned = |key: &Key| self.slots.owner(Partitions::default().of_key(key)) == index(slot);
        (0..).map(|n| Key::new(format!("key-{n}")).unwrap()).filter(owned).take(many).collect()
    }

    /// Sends so many messages of one key to one slot.
    pub(crate) async fn send(&self, slot: i64, many: usize) -> Vec<MessageId> {
        let key = self.keys(slot, 1).remove(0);
        let messages = (0..many).map(|n| text(&format!("{slot}/{n}")).key(key.clone())).collect();
        self.store.send_batch(self.queue(), messages).await.unwrap()
    }

    /// Sends one message.
    pub(crate) async fn put(&self, message: NewMessage) -> MessageId {
        self.store.send(self.queue(), message).await.unwrap()
    }

    pub(crate) fn request(&self, name: &str, seconds: u64) -> ClaimSlot {
        ClaimSlot::new(self.path.clone(), worker(name)).ttl(ttl(seconds))
    }

    /// Claims a slot that must be claimable.
    pub(crate) async fn claim(&self, name: &str, slot: i64, seconds: u64) -> SlotGrant {
        self.try_claim(name, slot, seconds).await.unwrap_or_else(|| panic!("slot {slot} was not granted to {name}"))
    }

    pub(crate) async fn try_claim(&self, name: &str, slot: i64, seconds: u64) -> Option<SlotGrant> {
        self.store.claim_slot(&self.request(name, seconds), index(slot)).await.unwrap()
    }

    /// Receives a batch that must be there.
    pub(crate) async fn receive(&self, token: &SlotToken, max: i64) -> Batch {
        self.try_receive(token, max).await.expect("a batch is there")
    }

    pub(crate) async fn try_receive(&self, token: &SlotToken, max: i64) -> Option<Batch> {
        self.store.receive(token, size(max)).await.unwrap()
    }

    /// Claims a slot, acks everything in it in batches of `max`, gives it back, and returns the batches.
    pub(crate) async fn drain(&self, slot: i64, max: i64) -> Vec<Batch> {
        let token = self.claim("drain", slot, 30).await.token;
        let mut batches = Vec::new();
        while let Some(batch) = self.try_receive(&token, max).await {
            assert_eq!(self.store.ack(&token, batch.id).await.unwrap() as usize, batch.messages.len());
            batches.push(batch);
        }
        self.store.release_slot(&token).await.unwrap();
        batches
    }

    pub(crate) async fn ack(&self, token: &SlotToken, batch: &Batch) -> u32 {
        self.store.ack(token, batch.id).await.unwrap()
    }

    /// Nacks a message of the open batch, to be tried again after so many seconds.
    pub(crate) async fn nack(&self, token: &SlotToken, batch: &Batch, id: MessageId, seconds: u64) -> Nacked {
        self.store.nack(token, batch.id, id, &failure(seconds)).await.unwrap()
    }

    pub(crate) async fn snooze(&self, token: &SlotToken, batch: &Batch, id: MessageId, seconds: u64) -> Vec<MessageId> {
        self.store.snooze(token, batch.id, id, delay(seconds)).await.unwrap()
    }

    pub(crate) async fn give_up(&self, token: &SlotToken, batch: &Batch, id: MessageId, reason: &str) {
        self.store.dead_letter(token, batch.id, id, &why(reason)).await.unwrap();
    }

    /// Sends so many messages of one key to one slot, and has them all given up by a worker that gives the slot back.
    pub(crate) async fn bury(&self, slot: i64, many: usize) -> Vec<MessageId> {
        let sent = self.send(slot, many).await;
        let token = self.claim("sexton", slot, 30).await.token;
        let batch = self.receive(&token, 10_000).await;
        for id in &sent {
            self.give_up(&token, &batch, *id, "hopeless").await;
        }
        self.ack(&token, &batch).await;
        self.store.release_slot(&token).await.unwrap();
        sent
    }

    /// The consumer's dead letters.
    pub(crate) async fn dead(&self) -> Vec<DeadLetter> {
        self.store.dead_letters(&self.path, None, size(10_000)).await.unwrap()
    }

    /// The ids of the consumer's dead letters.
    pub(crate) async fn dead_ids(&self) -> Vec<MessageId> {
        self.dead().await.iter().map(|letter| letter.id).collect()
    }

    pub(crate) async fn queue_status(&self) -> QueueStatus {
        let statuses = self.store.queue_status().await.unwrap();
        statuses.into_iter().find(|status| status.queue == *self.queue()).expect("the queue has a status")
    }

    /// Runs maintenance until nothing is left to do.
    pub(crate) async fn maintain(&self) -> u64 {
        let mut steps = 0;
        loop {
            match self.store.maintain(Some(self.queue())).await.unwrap() {
                0 => return steps,
                more => steps += more,
            }
        }
    }

    pub(crate) async fn status(&self, slot: i64) -> SlotStatus {
        let statuses = self.store.slot_status(Some(self.queue())).await.unwrap();
        let found = statuses.into_iter().find(|status| status.path == self.path && status.slot == index(slot));
        found.unwrap_or_else(|| panic!("slot {slot} has no status"))
    }

    pub(crate) async fn state(&self, slot: i64) -> SlotState {
        self.status(slot).await.state
    }

    pub(crate) fn heartbeat(&self, member: &str, held: &[&SlotGrant]) -> Heartbeat {
        Heartbeat {
            path: self.path.clone(),
            member: nonce(member),
            worker: worker(member),
            ttl: ttl(10),
            held: held.iter().map(|grant| (grant.token.slot, grant.token.epoch)).collect(),
        }
    }

    /// When the next message of a slot becomes due, as the store tells it in time from now.
    pub(crate) async fn due_at(&self, slot: SlotIndex) -> Option<Timestamp> {
        let due = self.store.next_due(&self.path, slot).await.unwrap()?;
        Some(self.store.now().await.unwrap() + due)
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }

    pub(crate) fn pass_seconds(&self, seconds: u64) {
        self.pass(Duration::from_secs(seconds));
    }
}

/// A claim taken over: w1 of TTL 1 s received two messages of slot 0 and vanished; w2 was granted the slot after expiry.
pub(crate) struct TakenOver {
    pub(crate) stage: Stage,
    pub(crate) ids: Vec<MessageId>,
    pub(crate) first: SlotGrant,
    pub(crate) batch: Batch,
    pub(crate) second: SlotGrant,
}

impl TakenOver {
    pub(crate) async fn new(h: &dyn Harness) -> Self {
        let stage = Stage::new(h, 2).await;
        let ids = stage.send(0, 2).await;
        let first = stage.claim("w1", 0, 1).await;
        let batch = stage.receive(&first.token, 100).await;
        stage.pass_seconds(1);
        let second = stage.claim("w2", 0, 30).await;
        Self { stage, ids, first, batch, second }
    }
}

pub(crate) fn path(queue: &str, consumer: &str) -> ConsumerPath {
    ConsumerPath::new(queue, consumer).unwrap()
}

pub(crate) fn count(slots: i64) -> SlotCount {
    SlotCount::new(slots).unwrap()
}

pub(crate) fn index(slot: i64) -> SlotIndex {
    SlotIndex::new(slot).unwrap()
}

pub(crate) fn size(max: i64) -> BatchSize {
    BatchSize::new(max).unwrap()
}

pub(crate) fn ttl(seconds: u64) -> Ttl {
    Ttl::new(Duration::from_secs(seconds)).unwrap()
}

pub(crate) fn nonce(text: &str) -> Nonce {
    Nonce::new(text).unwrap()
}

pub(crate) fn worker(name: &str) -> WorkerName {
    WorkerName::new(name).unwrap()
}

pub(crate) fn text(payload: &str) -> NewMessage {
    NewMessage::new(payload).unwrap()
}

pub(crate) fn delay(seconds: u64) -> Delay {
    Delay::new(Duration::from_secs(seconds)).unwrap()
}

pub(crate) fn why(text: &str) -> FailureText {
    FailureText::new(text).unwrap()
}

/// A failure after which a message is tried again in so many seconds, whatever the policy's jitter.
pub(crate) fn failure(seconds: u64) -> Failure {
    Failure::because(why("it broke")).retry_after(delay(seconds))
}

/// The attempts of a batch's messages.
pub(crate) fn attempts(batch: &Batch) -> Vec<u32> {
    batch.messages.iter().map(|message| message.attempt).collect()
}

pub(crate) fn ids(batch: &Batch) -> Vec<MessageId> {
    batch.messages.iter().map(|message| message.id).collect()
}

/// The error of a call that must be refused so, with the kind's own code and something that the caller can do.
pub(crate) fn refused<T: Debug>(result: Result<T>, kind: Kind) -> Error {
    let error = result.expect_err("the call is refused");
    assert_eq!((error.kind(), error.code()), (kind, kind.code()), "{error:?}");
    assert!(error.hint().is_some(), "{error:?}");
    error
}

/// Checks that a call was fenced and says by which epoch.
pub(crate) fn fenced<T: Debug>(result: Result<T>, presented: Epoch, current: Option<Epoch>) {
    let error = refused(result, Kind::Fenced);
    let current = current.map_or_else(|| "none".to_owned(), |epoch| epoch.to_string());
    assert_eq!(error.fact("presented_epoch"), Some(presented.to_string().as_str()), "{error:?}");
    assert_eq!(error.fact("current_epoch"), Some(current.as_str()), "{error:?}");
}

/// Runs `call` and checks that it wrote nothing.
pub(crate) async fn writes_nothing<T>(h: &dyn Harness, what: &str, call: impl Future<Output = T>) -> T {
    let before = h.write_mark().await;
    let answer = call.await;
    assert_eq!(h.write_mark().await, before, "{what} wrote something");
    answer
}

/// Waits for a wake-up that is under way.
pub(crate) async fn woken(receiver: &mut WakeReceiver) {
    let woken = tokio::time::timeout(Duration::from_secs(10), receiver.woken()).await;
    woken.expect("a wake-up comes").expect("the store is open");
}

/// Whether no wake-up has come so far.
pub(crate) fn asleep(receiver: &mut WakeReceiver) -> bool {
    poll_once(&mut pin!(receiver.woken())).is_none()
}
