//! The model engine, overheard: counts calls, lets them hang, fail or panic when told, and keeps the sleepers where a test sees them.

use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Waker};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_core::{
    AckReceived, AcquireLease, Acquired, Batch, BatchId, BatchSize, ChannelName, ClaimSlot, ConsumerPath,
    ConsumerStatus, Consumers, CreateConsumer, Created, DeadLetter, DeadLetters, Delay, Dropped, Due, Epoch, Error,
    Failure, FailureText, Fired, Forced, Heartbeat, IdempotencyKey, LeaseName, LeaseStatus, LeaseToken, Leases,
    MemberStatus, Members, MessageId, Nacked, NewMessage, NextFire, Nonce, NoticePayload, NoticeReceiver, Notices,
    OnceTtl, Page, Partitions, Pulse, Put, QueueName, QueueStatus, Queues, Readers, Reason, Release, Renewal, Result,
    Retention, ScheduleDefinition, ScheduleName, ScheduleStatus, Schedules, SentOnce, SlotGrant, SlotIndex, SlotStatus,
    SlotToken, Slots, Start, Store, StoreInfo, Tick, TickOutcome, Timestamp, Topic, Ttl, WakeHub, WakeReceiver,
    Wakeups,
};
use fencepost_mem::MemStore;
use tokio::sync::watch;

/// Which calls hang until told otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hangs {
    Nothing,
    Renewals,
    Everything,
    Maintenance,
    /// What schedules fire.
    Fires,
    /// Slots are given back, but nobody is told.
    AnswersOfReleases,
    /// Renewals take that long.
    RenewalsFor(Duration),
    /// Every call takes that long.
    EverythingFor(Duration),
}

pub struct Spy {
    store: MemStore,
    hangs: watch::Sender<Hangs>,
    calls: Mutex<Vec<&'static str>>,
    panics: Mutex<Option<&'static str>>,
    /// The answer of the next acquire of a lease, in place of the true one.
    pub instead_of_acquired: Mutex<Option<Error>>,
    /// What renewals of a lease fail with, while there is something.
    pub failing_renewals: Mutex<Option<fn() -> Error>>,
    /// What commits of schedules fail with, while there is something.
    pub failing_fires: Mutex<Option<fn() -> Error>>,
    /// So many acquires of a lease meet somebody's lock.
    pub contended: Mutex<usize>,
    /// What is given back while the next sleeper is about to register.
    pub released_before_sleep: Mutex<Option<LeaseToken>>,
    /// What is removed once the next status of all schedules was told.
    pub removed_after_status: Mutex<Option<ScheduleName>>,
    /// Who sleeps. Nobody is woken by it: workers poll.
    pub sleepers: WakeHub,
}

impl Spy {
    pub fn new(store: MemStore) -> Self {
        Self {
            store,
            hangs: watch::channel(Hangs::Nothing).0,
            calls: Mutex::default(),
            panics: Mutex::default(),
            instead_of_acquired: Mutex::default(),
            failing_renewals: Mutex::default(),
            failing_fires: Mutex::default(),
            contended: Mutex::default(),
            released_before_sleep: Mutex::default(),
            removed_after_status: Mutex::default(),
            sleepers: WakeHub::default(),
        }
    }

    /// Lets the next call of that name panic.
    pub fn panic_in(&self, name: &'static str) {
        *self.panics.lock().unwrap() = Some(name);
    }

    pub fn hang(&self, hangs: Hangs) {
        self.hangs.send_replace(hangs);
    }

    /// How many calls were made.
    pub fn all_calls(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    /// How often a call was made, by its name.
    pub fn calls(&self, name: &str) -> usize {
        self.calls.lock().unwrap().iter().filter(|call| **call == name).count()
    }

    async fn call(&self, name: &'static str) {
        self.calls.lock().unwrap().push(name);
        let panics = self.panics.lock().unwrap().take_if(|panics| *panics == name).is_some();
        assert!(!panics, "as asked");
        let renews = matches!(name, "heartbeat" | "renew_slot" | "renew_lease" | "due_schedules");
        let mut hangs = self.hangs.subscribe();
        let slow = *hangs.borrow();
        let takes = match slow {
            Hangs::RenewalsFor(time) if renews => time,
            Hangs::EverythingFor(time) => time,
            _ => Duration::ZERO,
        };
        if !takes.is_zero() {
            tokio::time::sleep(takes).await; // TIME: virtual time, nothing is waited for
        }
        let free = |hangs: &Hangs| match hangs {
            Hangs::Nothing | Hangs::RenewalsFor(_) | Hangs::EverythingFor(_) | Hangs::AnswersOfReleases => true,
            Hangs::Maintenance => name != "maintain",
            Hangs::Fires => name != "fire_schedules",
            Hangs::Renewals => !renews,
            Hangs::Everything => false,
        };
        let _ = hangs.wait_for(free).await;
    }

    fn fail_renewal(&self) -> Result<()> {
        self.failing_renewals.lock().unwrap().map_or(Ok(()), |error| Err(error()))
    }

    async fn released(&self, answer: Result<Release>) -> Result<Release> {
        let _ = self.hangs.subscribe().wait_for(|hangs| *hangs != Hangs::AnswersOfReleases).await;
        answer
    }
}

#[async_trait]
impl Leases for Spy {
    async fn acquire_lease(&self, request: &AcquireLease) -> Result<Acquired> {
        self.call("acquire_lease").await;
        let contended = *self.contended.lock().unwrap();
        if contended > 0 {
            *self.contended.lock().unwrap() = contended - 1;
            return Ok(Acquired::Contended);
        }
        let answer = self.store.acquire_lease(request).await;
        self.instead_of_acquired.lock().unwrap().take().map_or(answer, Err)
    }

    async fn renew_lease(&self, token: &LeaseToken, ttl: Option<Ttl>) -> Result<Renewal> {
        self.call("renew_lease").await;
        self.fail_renewal()?;
        self.store.renew_lease(token, ttl).await
    }

    async fn release_lease(&self, token: &LeaseToken) -> Result<Release> {
        self.call("release_lease").await;
        self.store.release_lease(token).await
    }

    async fn force_release_lease(&self, name: &LeaseName, reason: &Reason) -> Result<Epoch> {
        self.store.force_release_lease(name, reason).await
    }

    async fn lease_history(&self, name: &LeaseName) -> Result<Vec<Forced>> {
        self.store.lease_history(name).await
    }

    async fn lease(&self, name: &LeaseName) -> Result<Option<LeaseStatus>> {
        self.store.lease(name).await
    }

    async fn lease_status(&self) -> Result<Vec<LeaseStatus>> {
        self.store.lease_status().await
    }
}

#[async_trait]
impl Queues for Spy {
    async fn create_queue(&self, queue: &QueueName, partitions: Partitions) -> Result<Created> {
        self.store.create_queue(queue, partitions).await
    }

    async fn drop_queue(&self, queue: &QueueName, force: bool) -> Result<Dropped> {
        self.store.drop_queue(queue, force).await
    }

    async fn send(&self, queue: &QueueName, message: NewMessage) -> Result<MessageId> {
        self.store.send(queue, message).await
    }

    async fn send_batch(&self, queue: &QueueName, messages: Vec<NewMessage>) -> Result<Vec<MessageId>> {
        self.store.send_batch(queue, messages).await
    }

    async fn send_once(
        &self,
        queue: &QueueName,
        message: NewMessage,
        key: &IdempotencyKey,
        ttl: OnceTtl,
    ) -> Result<SentOnce> {
        self.store.send_once(queue, message, key, ttl).await
    }

    async fn pause_queue(&self, queue: &QueueName) -> Result<bool> {
        self.store.pause_queue(queue).await
    }

    async fn resume_queue(&self, queue: &QueueName) -> Result<bool> {
        self.store.resume_queue(queue).await
    }

    async fn set_retention(&self, queue: &QueueName, retention: Retention) -> Result<()> {
        self.store.set_retention(queue, retention).await
    }

    async fn queue_status(&self) -> Result<Vec<QueueStatus>> {
        self.store.queue_status().await
    }

    async fn maintain(&self, queue: Option<&QueueName>) -> Result<u64> {
        self.call("maintain").await;
        self.store.maintain(queue).await
    }
}

#[async_trait]
impl Consumers for Spy {
    async fn create_consumer(&self, request: &CreateConsumer) -> Result<Created> {
        self.store.create_consumer(request).await
    }

    async fn drop_consumer(&self, path: &ConsumerPath, force: bool) -> Result<Dropped> {
        self.store.drop_consumer(path, force).await
    }

    async fn consumer_status(&self, queue: Option<&QueueName>) -> Result<Vec<ConsumerStatus>> {
        self.store.consumer_status(queue).await
    }
}

#[async_trait]
impl Slots for Spy {
    async fn claim(&self, request: &ClaimSlot) -> Result<Option<SlotGrant>> {
        self.call("claim").await;
        self.store.claim(request).await
    }

    async fn claim_slot(&self, request: &ClaimSlot, slot: SlotIndex) -> Result<Option<SlotGrant>> {
        self.store.claim_slot(request, slot).await
    }

    async fn receive(&self, token: &SlotToken, max: BatchSize) -> Result<Option<Batch>> {
        self.call("receive").await;
        self.store.receive(token, max).await
    }

    async fn ack(&self, token: &SlotToken, batch: BatchId) -> Result<u32> {
        self.call("ack").await;
        self.store.ack(token, batch).await
    }

    async fn ack_through(&self, token: &SlotToken, batch: BatchId, message: MessageId) -> Result<u32> {
        self.store.ack_through(token, batch, message).await
    }

    async fn nack(&self, token: &SlotToken, batch: BatchId, message: MessageId, failure: &Failure) -> Result<Nacked> {
        self.call("nack").await;
        self.store.nack(token, batch, message, failure).await
    }

    async fn snooze(
        &self,
        token: &SlotToken,
        batch: BatchId,
        message: MessageId,
        retry_after: Delay,
    ) -> Result<Vec<MessageId>> {
        self.call("snooze").await;
        self.store.snooze(token, batch, message, retry_after).await
    }

    async fn dead_letter(
        &self,
        token: &SlotToken,
        batch: BatchId,
        message: MessageId,
        reason: &FailureText,
    ) -> Result<()> {
        self.call("dead_letter").await;
        self.store.dead_letter(token, batch, message, reason).await
    }

    async fn next_due(&self, path: &ConsumerPath, slot: SlotIndex) -> Result<Option<Duration>> {
        self.call("next_due").await;
        self.store.next_due(path, slot).await
    }

    async fn ack_receive(&self, token: &SlotToken, batch: BatchId, max: BatchSize) -> Result<AckReceived> {
        self.call("ack_receive").await;
        self.store.ack_receive(token, batch, max).await
    }

    async fn renew_slot(&self, token: &SlotToken) -> Result<Renewal> {
        self.call("renew_slot").await;
        self.store.renew_slot(token).await
    }

    async fn release_slot(&self, token: &SlotToken) -> Result<Release> {
        self.call("release_slot").await;
        self.released(self.store.release_slot(token).await).await
    }

    async fn abandon_slot(&self, token: &SlotToken) -> Result<Release> {
        self.call("abandon_slot").await;
        self.released(self.store.abandon_slot(token).await).await
    }

    async fn force_release_slot(&self, path: &ConsumerPath, slot: SlotIndex, reason: &Reason) -> Result<Epoch> {
        self.store.force_release_slot(path, slot, reason).await
    }

    async fn slot_history(&self, path: &ConsumerPath) -> Result<Vec<(SlotIndex, Forced)>> {
        self.store.slot_history(path).await
    }

    async fn slot_status(&self, queue: Option<&QueueName>) -> Result<Vec<SlotStatus>> {
        self.store.slot_status(queue).await
    }
}

#[async_trait]
impl DeadLetters for Spy {
    async fn dead_letters(
        &self,
        path: &ConsumerPath,
        after: Option<MessageId>,
        max: BatchSize,
    ) -> Result<Vec<DeadLetter>> {
        DeadLetters::dead_letters(&self.store, path, after, max).await
    }

    async fn dead_counts(&self, queue: Option<&QueueName>) -> Result<Vec<(ConsumerPath, u64)>> {
        DeadLetters::dead_counts(&self.store, queue).await
    }

    async fn replay_dead_letters(&self, path: &ConsumerPath, ids: Option<&[MessageId]>) -> Result<u64> {
        self.store.replay_dead_letters(path, ids).await
    }

    async fn purge_dead_letters(&self, path: &ConsumerPath, ids: Option<&[MessageId]>) -> Result<u64> {
        self.store.purge_dead_letters(path, ids).await
    }
}

#[async_trait]
impl Readers for Spy {
    async fn read(&self, queue: &QueueName, from: Start, max: BatchSize) -> Result<Page> {
        Readers::read(&self.store, queue, from, max).await
    }
}

#[async_trait]
impl Schedules for Spy {
    async fn put_schedule(
        &self,
        definition: &ScheduleDefinition,
        next: Option<NextFire>,
        anchor_at: Timestamp,
    ) -> Result<Put> {
        self.store.put_schedule(definition, next, anchor_at).await
    }

    async fn remove_schedule(&self, name: &ScheduleName) -> Result<bool> {
        self.store.remove_schedule(name).await
    }

    async fn pause_schedule(&self, name: &ScheduleName) -> Result<bool> {
        self.store.pause_schedule(name).await
    }

    async fn resume_schedule(&self, name: &ScheduleName, next: Option<NextFire>) -> Result<bool> {
        self.store.resume_schedule(name, next).await
    }

    async fn schedule(&self, name: &ScheduleName) -> Result<Option<ScheduleStatus>> {
        self.store.schedule(name).await
    }

    async fn schedule_status(&self) -> Result<Vec<ScheduleStatus>> {
        let told = self.store.schedule_status().await;
        let removed = self.removed_after_status.lock().unwrap().take();
        if let Some(name) = removed {
            self.store.remove_schedule(&name).await?;
        }
        told
    }

    async fn schedule_history(&self, name: &ScheduleName) -> Result<Vec<Fired>> {
        self.store.schedule_history(name).await
    }

    async fn run_schedule(&self, name: &ScheduleName) -> Result<Fired> {
        self.store.run_schedule(name).await
    }

    async fn due_schedules(&self, leader: &LeaseToken, ttl: Option<Ttl>, max: u32) -> Result<Option<Due>> {
        self.call("due_schedules").await;
        self.fail_renewal()?;
        self.store.due_schedules(leader, ttl, max).await
    }

    async fn fire_schedules(&self, leader: &LeaseToken, ticks: &[Tick]) -> Result<Vec<TickOutcome>> {
        self.call("fire_schedules").await;
        self.failing_fires.lock().unwrap().map_or(Ok(()), |error| Err(error()))?;
        self.store.fire_schedules(leader, ticks).await
    }
}

#[async_trait]
impl Members for Spy {
    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Pulse> {
        self.call("heartbeat").await;
        self.store.heartbeat(heartbeat).await
    }

    async fn leave(&self, path: &ConsumerPath, member: &Nonce) -> Result<()> {
        self.call("leave").await;
        self.store.leave(path, member).await
    }

    async fn members(&self, path: &ConsumerPath) -> Result<Vec<MemberStatus>> {
        self.call("members").await;
        self.store.members(path).await
    }
}

#[async_trait]
impl Notices for Spy {
    async fn notify(&self, channel: &ChannelName, payload: &NoticePayload) -> Result<()> {
        self.call("notify").await;
        self.store.notify(channel, payload).await
    }

    async fn listen(&self, channel: &ChannelName) -> Result<NoticeReceiver> {
        self.call("listen").await;
        self.store.listen(channel).await
    }
}

impl Wakeups for Spy {
    fn wakes(&self, topic: &Topic) -> WakeReceiver {
        if let Some(token) = self.released_before_sleep.lock().unwrap().take() {
            let released = pin!(self.store.release_lease(&token)).poll(&mut Context::from_waker(Waker::noop()));
            assert!(released.is_ready(), "the model does everything at once");
        }
        self.sleepers.receiver(topic)
    }
}

#[async_trait]
impl Store for Spy {
    fn info(&self) -> StoreInfo {
        self.store.info()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.store.now().await
    }

    async fn close(&self) {
        self.store.close().await;
    }
}
