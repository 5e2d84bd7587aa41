//! The worker: joins a consumer, claims its fair share of slots, runs them, and hands them back when it is stopped.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fencepost_core::{ClaimSlot, Clock, Closed, HostClock, Kind, Nonce, Pulse, Result, Store, Topic, WakeReceiver};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::activity::Activity;
use crate::event::{Event, Observer, Silent, Witness};
use crate::handler::BatchHandler;
use crate::keeper::Keeper;
use crate::renewal::late;
use crate::settings::WorkerSettings;
use crate::share;
use crate::slot::{self, Crew, Ended, Leash, Tally};

/// How often a worker with room looks for slots to claim: what bounds a takeover after an owner's expiry.
const CLAIMS: Duration = Duration::from_millis(150);

/// How long joining may take: one TTL, within these.
const JOIN: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(30));

/// How often a worker that has acked something removes consumed storage.
const MAINTENANCE: Duration = Duration::from_millis(500);

/// How often a worker that acks maintains the whole store: what queues without workers, dropped ones and forgotten leases left.
const EVERYTHING: Duration = Duration::from_secs(600);

/// A worker that has joined a consumer. [`Worker::run`] makes it work.
///
/// ```
/// use std::sync::Arc;
/// use fencepost_core::*;
/// use fencepost_runtime::*;
///
/// struct Print;
///
/// #[async_trait]
/// impl MessageHandler for Print {
///     async fn handle(&self, message: &Message, _slot: &SlotContext) -> Result<(), HandlerError> {
///         println!("{} {:?}", message.id, message.payload);
///         Ok(())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), fencepost_core::Error> {
/// # let store: Arc<dyn Store> = Arc::new(fencepost_mem::MemStore::new(Arc::new(HostClock)));
/// let path = ConsumerPath::new("orders", "billing")?;
/// # store.create_queue(&path.queue, Partitions::default()).await?;
/// # store.create_consumer(&CreateConsumer::ordered(path.clone(), SlotCount::new(4)?)).await?;
/// let settings = WorkerSettings::new(path, WorkerName::new("worker-1")?);
/// let worker = Worker::join(store, settings, PerMessage::new(Print, 8)).await?;
///
/// let stop = CancellationToken::new(); // or stop_on_signals()
/// # stop.cancel();
/// let report = worker.run(stop).await;
/// # assert_eq!(report.messages, 0);
/// # Ok(())
/// # }
/// ```
pub struct Worker {
    control: Control,
    store: Arc<dyn Store>,
    handler: Arc<dyn BatchHandler>,
    observer: Witness,
    settings: WorkerSettings,
    keeper: Keeper,
    pulse: Pulse,
}

/// Pauses a worker and lets it go on. Clones control the same one.
#[derive(Debug, Clone)]
pub struct Control(Arc<watch::Sender<bool>>);

impl Control {
    fn new() -> Self {
        Self(Arc::new(watch::channel(true).0))
    }

    /// Takes nothing new, and keeps the slots: batches in hand are finished.
    pub fn pause(&self) {
        self.0.send_replace(false);
    }

    /// Takes new batches again.
    pub fn resume(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn is_running(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is not paused.
    pub(crate) async fn running(&self) {
        // The sender is this, so it is not gone.
        let _ = self.0.subscribe().wait_for(|running| *running).await;
    }
}

/// What a worker did until it was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Batches acked.
    pub batches: u64,
    /// Messages acked; of a batch that its handler acked itself all of them, as nobody told which.
    pub messages: u64,
    /// Messages of acked batches that were not: they failed, were put off, withdrawn or given up.
    pub failed: u64,
    /// Slots lost to others.
    pub lost: u64,
}

impl Worker {
    /// Joins the consumer as a member. No slot is claimed yet.
    ///
    /// # Errors
    /// `not_found` when the consumer does not exist; `unavailable`, with code `renewal_timeout` when the store does not answer.
    pub async fn join(store: Arc<dyn Store>, settings: WorkerSettings, handler: impl BatchHandler) -> Result<Self> {
        Self::join_observed(store, settings, handler, Silent).await
    }

    /// Joins the consumer and tells `observer` what happens.
    ///
    /// # Errors
    /// As [`Worker::join`].
    pub async fn join_observed(
        store: Arc<dyn Store>,
        settings: WorkerSettings,
        handler: impl BatchHandler,
        observer: impl Observer,
    ) -> Result<Self> {
        let observer = Witness::new(observer);
        let clock: Arc<dyn Clock> = Arc::new(HostClock);
        let keeper = Keeper::new(store.clone(), clock, observer.clone(), settings.clone())?;
        let bound = settings.ttl.get().clamp(JOIN.0, JOIN.1);
        let pulse = tokio::time::timeout(bound, keeper.beat()).await.unwrap_or_else(|_| Err(late()))?;
        Ok(Self { control: Control::new(), store, handler: Arc::new(handler), observer, settings, keeper, pulse })
    }

    /// What pauses it.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Works until `stop` fires, then drains: claims nothing more, finishes the batches in hand or hands them back within the
    /// grace period, releases the slots and leaves. A clean stop spends no attempt and counts no crash. It stops by itself when the
    /// store was closed or the consumer dropped.
    pub async fn run(self, stop: CancellationToken) -> Report {
        let Worker { control, store, handler, observer, settings, keeper, pulse } = self;
        // A child: what stops this worker alone must not stop what else the caller stops by it.
        let stop = stop.child_token();
        let (activity, tally) = (Activity::new(), Tally::default());
        let turns = Semaphore::new(settings.at_once);
        let due = Notify::new();
        let crew =
            Arc::new(Crew { store, handler, observer, settings, keeper, stop, activity, tally, turns, control, due });
        let ended = CancellationToken::new();
        let keeping = tokio::spawn({
            let (crew, ended) = (crew.clone(), ended.clone());
            async move { crew.keeper.run(ended).await }
        });

        // Dropped at any await, the worker renews nothing any more: what it held expires by itself.
        let kept = ended.drop_guard();
        Foreman::new(crew.clone(), pulse).run().await;
        // ORDER: slots are kept until the last of them is given back.
        drop(kept);
        let _ = keeping.await;
        crew.keeper.leave().await;
        let Tally { batches, messages, failed, lost } = &crew.tally;
        Report {
            batches: batches.load(Ordering::Relaxed),
            messages: messages.load(Ordering::Relaxed),
            failed: failed.load(Ordering::Relaxed),
            lost: lost.load(Ordering::Relaxed),
        }
    }
}

/// Decides which slots a worker runs.
struct Foreman {
    crew: Arc<Crew>,
    pulse: Pulse,
    running: JoinSet<Ended>,
    /// How each running slot is asked back.
    wishes: HashMap<Id, CancellationToken>,
    /// Nothing is claimed before this, so that a slot given back goes to whom it was given for.
    not_before: Instant,
    /// What wakes a worker that gave its slots back because nothing came.
    dormant: Option<WakeReceiver>,
}

impl Foreman {
    fn new(crew: Arc<Crew>, pulse: Pulse) -> Self {
        let (running, wishes) = (JoinSet::new(), HashMap::new());
        Self { crew, pulse, running, wishes, not_before: Instant::now(), dormant: None }
    }

    async fn run(&mut self) {
        let crew = self.crew.clone();
        let path = &crew.settings.path;
        let mut slot_wakes = crew.store.wakes(&Topic::Slots(path.clone()));
        let mut pulses = crew.keeper.pulses();
        let mut open = true;
        // A task of its own: claiming and giving back do not wait for it.
        let maintaining = Leash(tokio::spawn(maintain(crew.clone())).abort_handle());
        while !crew.stop.is_cancelled() {
            self.claim().await;
            let has_room = self.room() > 0;
            tokio::select! {
                () = crew.stop.cancelled() => {}
                Some(ended) = self.running.join_next_with_id() => self.ended(ended),
                woken = slot_wakes.woken(), if open && has_room => open = woken.is_ok(),
                Ok(()) = woken(&mut self.dormant), if open => {
                    self.dormant = None;
                    self.not_before = Instant::now();
                }
                changed = pulses.changed() => {
                    if changed.is_ok() && let Some(pulse) = pulses.borrow_and_update().clone() {
                        self.pulse = pulse;
                        self.give_back();
                    }
                }
                () = tokio::time::sleep(CLAIMS) => {}
            }
            self.rest_when_idle();
        }
        drop(maintaining);
        while let Some(ended) = self.running.join_next_with_id().await {
            self.ended(ended);
        }
    }

    /// How many more slots this worker would take.
    fn room(&self) -> u32 {
        share::ceiling(u32::from(self.pulse.slots.get()), self.pulse.workers).saturating_sub(self.wishes.len() as u32)
    }

    /// Claims up to the fair share.
    async fn claim(&mut self) {
        let crew = self.crew.clone();
        if Instant::now() < self.not_before || crew.stop.is_cancelled() {
            return;
        }
        if self.wishes.len() >= usize::from(self.pulse.slots.get()) {
            // It has them all, however many members there are.
            return;
        }
        // Members come and lapse between heartbeats; reading them writes nothing.
        match crew.bounded(crew.store.members(&crew.settings.path)).await {
            Ok(members) => self.pulse.workers = (members.len() as u32).max(1),
            Err(error) => {
                if error.kind() == Kind::NotFound {
                    // The consumer was dropped: there is nothing to work for any more.
                    crew.stop.cancel();
                }
                return crew.observer.observe(&Event::CallFailed { error: &error });
            }
        }
        while self.room() > 0 && !crew.stop.is_cancelled() {
            let Ok(nonce) = Nonce::random() else { return };
            let request = ClaimSlot::new(crew.settings.path.clone(), crew.settings.name.clone())
                .ttl(crew.settings.ttl)
                .nonce(nonce);
            // ORDER: the deadline is anchored before the request is sent.
            let deadline = crew.keeper.deadline_of_request();
            let mut answer = crew.bounded(crew.store.claim(&request)).await;
            if answer.as_ref().is_err_and(|error| error.kind() == Kind::UnknownOutcome) {
                // The nonce tells whether the first attempt was granted.
                answer = crew.bounded(crew.store.claim(&request)).await;
            }
            match answer {
                Ok(Some(grant)) => {
                    let (slot, epoch) = (grant.token.slot, grant.token.epoch);
                    let context = crew.keeper.keep(grant.token, deadline);
                    crew.observer.observe(&Event::Claimed { slot, epoch, origin: grant.origin, batch: grant.batch });
                    crew.activity.restart();
                    let give_back = CancellationToken::new();
                    let task = self.running.spawn(slot::run(crew.clone(), context, give_back.clone()));
                    self.wishes.insert(task.id(), give_back);
                    self.dormant = None;
                }
                Ok(None) => return,
                Err(error) => return crew.observer.observe(&Event::CallFailed { error: &error }),
            }
        }
    }

    /// Asks one slot back, between batches, when this worker has too many and a live one too few.
    fn give_back(&mut self) {
        let held = self.wishes.values().filter(|wish| !wish.is_cancelled()).count() as u32;
        let Pulse { workers, fewest, slots, .. } = &self.pulse;
        if !share::gives_back(held, *fewest, u32::from(slots.get()), *workers) {
            return;
        }
        if let Some(wish) = self.wishes.values().find(|wish| !wish.is_cancelled()) {
            wish.cancel();
            self.not_before = Instant::now() + self.crew.settings.interval();
        }
    }

    fn ended(&mut self, ended: Result<(Id, Ended), JoinError>) {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(panic) => {
                // A slot's loop catches its handler's panics: this one is ours. Its slot expires by itself.
                tracing::error!(%panic, "a slot's loop panicked");
                panic.id()
            }
        };
        self.wishes.remove(&id);
    }

    /// Asks all slots back when nothing has come for any of them for long, until a message comes or it is time to poll.
    fn rest_when_idle(&mut self) {
        let settings = &self.crew.settings;
        let asked = self.wishes.values().all(CancellationToken::is_cancelled);
        if asked || self.crew.activity.idle() < settings.idle() {
            return;
        }
        // ORDER: registered before the slots are asked back, so that a message that comes meanwhile is heard.
        self.dormant = Some(self.crew.store.wakes(&Topic::Messages(settings.path.queue.clone())));
        self.not_before = Instant::now() + settings.poll;
        self.wishes.values().for_each(CancellationToken::cancel);
    }
}

/// Maintains the queue from time to time when this worker has acked something since, and when a slot found something due; now and then
/// the whole store, since nobody else may. It may take its time: there is no second one meanwhile, and nobody waits for it.
async fn maintain(crew: Arc<Crew>) {
    let (mut maintained, mut everything) = (0, Instant::now());
    loop {
        let is_due = tokio::select! {
            () = tokio::time::sleep(MAINTENANCE) => false,
            () = crew.due.notified() => true,
        };
        let acked = crew.tally.batches.load(Ordering::Relaxed);
        if acked == maintained && !is_due {
            continue;
        }
        maintained = acked;
        let queue = if everything.elapsed() < EVERYTHING {
            Some(&crew.settings.path.queue)
        } else {
            everything = Instant::now();
            None
        };
        if let Err(error) = crew.store.maintain(queue).await {
            crew.observer.observe(&Event::CallFailed { error: &error });
        }
    }
}

/// Waits for the receiver, for ever when there is none.
async fn woken(receiver: &mut Option<WakeReceiver>) -> Result<(), Closed> {
    match receiver {
        Some(receiver) => receiver.woken().await,
        None => std::future::pending().await,
    }
}
