//! The stage of the tests: a store that lives in the runtime's virtual time, a consumer, workers, and what they tell.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_core::slot::{GrantOrigin, SlotState};
use fencepost_core::{
    Batch, BatchSize, BootInstant, ClaimSlot, Clock, ConsumerPath, Consumers, CreateConsumer, HostClock, NewMessage,
    Partitions, Queues, SlotCount, SlotGrant, SlotIndex, Slots, Store, Timestamp, Ttl, WorkerName,
};
use fencepost_mem::MemStore;
use fencepost_runtime::{
    BatchHandler, CancellationToken, Done, Event, HandlerError, LossCause, Observer, Report, SlotContext, Worker,
    WorkerSettings,
};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::spy::Spy;

/// How long anything may take that must come.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// The TTL of workers in virtual time: long enough that no deadline passes in real time.
pub const TTL: Duration = Duration::from_secs(12);

/// The runtime's virtual time as a clock.
#[derive(Debug)]
struct Virtual(tokio::time::Instant);

impl Clock for Virtual {
    fn wall(&self) -> Timestamp {
        Timestamp::from_micros(1_767_225_600_000_000) + self.0.elapsed()
    }

    fn boot(&self) -> BootInstant {
        BootInstant::from_boot(Duration::from_secs(1) + self.0.elapsed())
    }
}

/// A clock that shows the runtime's virtual time.
pub fn virtual_clock() -> Arc<dyn Clock> {
    Arc::new(Virtual(tokio::time::Instant::now()))
}

/// Lets virtual time pass: everything that is to happen by then happens first.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await; // TIME: virtual time, nothing is waited for
}

/// A queue `q` with a consumer `c`.
#[derive(Clone)]
pub struct Stage {
    pub store: Arc<Spy>,
}

impl Stage {
    /// In virtual time.
    pub async fn new(slots: i64) -> Self {
        Self::over(virtual_clock(), slots).await
    }

    /// In real time.
    pub async fn real(slots: i64) -> Self {
        Self::over(Arc::new(HostClock), slots).await
    }

    async fn over(clock: Arc<dyn Clock>, slots: i64) -> Self {
        let store = Arc::new(Spy::new(MemStore::new(clock)));
        store.create_queue(&path().queue, Partitions::default()).await.unwrap();
        store.create_consumer(&CreateConsumer::ordered(path(), SlotCount::new(slots).unwrap())).await.unwrap();
        Self { store }
    }

    /// Sends that many messages without a key: they go to the slots in turn.
    pub async fn send(&self, messages: usize) {
        let messages = (0..messages).map(|n| NewMessage::new(n.to_string()).unwrap()).collect();
        self.store.send_batch(&path().queue, messages).await.unwrap();
    }

    pub async fn slots(&self) -> Vec<SlotState> {
        self.store.slot_status(None).await.unwrap().into_iter().map(|status| status.state).collect()
    }

    pub async fn lag(&self) -> u64 {
        self.store.consumer_status(None).await.unwrap()[0].lag
    }

    /// Claims a slot as another program would, if it is claimable.
    pub async fn claim(&self, slot: i64) -> Option<SlotGrant> {
        let request = ClaimSlot::new(path(), WorkerName::new("other").unwrap());
        self.store.claim_slot(&request, SlotIndex::new(slot).unwrap()).await.unwrap()
    }

    pub async fn receive(&self, grant: &SlotGrant) -> Batch {
        self.store.receive(&grant.token, BatchSize::default()).await.unwrap().expect("a batch is there")
    }

    /// Joins a worker that does not run yet.
    pub async fn join(&self, settings: WorkerSettings, handler: impl BatchHandler) -> Joined {
        let diary = Diary::default();
        let worker = Worker::join_observed(self.store.clone() as Arc<dyn Store>, settings, handler, diary.clone());
        Joined { worker: worker.await.unwrap(), diary }
    }

    /// Joins a worker and runs it.
    pub async fn start(&self, settings: WorkerSettings, handler: impl BatchHandler) -> Running {
        self.join(settings, handler).await.run()
    }
}

pub fn path() -> ConsumerPath {
    ConsumerPath::new("q", "c").unwrap()
}

pub fn ttl(time: Duration) -> Ttl {
    Ttl::new(time).unwrap()
}

pub fn settings(name: &str) -> WorkerSettings {
    WorkerSettings::new(path(), WorkerName::new(name).unwrap()).ttl(ttl(TTL))
}

/// A worker that has joined.
pub struct Joined {
    pub worker: Worker,
    pub diary: Diary,
}

impl Joined {
    pub fn run(self) -> Running {
        let stop = CancellationToken::new();
        Running { diary: self.diary, task: tokio::spawn(self.worker.run(stop.clone())), stop }
    }
}

/// A worker at work.
pub struct Running {
    pub diary: Diary,
    pub stop: CancellationToken,
    pub task: JoinHandle<Report>,
}

impl Running {
    /// Stops it and waits until it has ended.
    pub async fn stop(self) -> Report {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.expect("it stops").expect("it does not panic")
    }
}

/// What a worker told, a line an event, and what it holds by that.
#[derive(Debug, Clone)]
pub struct Diary(Arc<Pages>);

#[derive(Debug)]
struct Pages {
    lines: Mutex<Vec<String>>,
    held: Mutex<BTreeMap<SlotIndex, i64>>,
    /// The most slots that were held at any moment.
    most: Mutex<usize>,
    written: watch::Sender<()>,
}

impl Default for Diary {
    fn default() -> Self {
        let (lines, held, most) = Default::default();
        Self(Arc::new(Pages { lines, held, most, written: watch::channel(()).0 }))
    }
}

impl Diary {
    pub fn lines(&self) -> Vec<String> {
        self.0.lines.lock().unwrap().clone()
    }

    pub fn held(&self) -> usize {
        self.0.held.lock().unwrap().len()
    }

    pub fn most(&self) -> usize {
        *self.0.most.lock().unwrap()
    }

    pub fn count(&self, beginning: &str) -> usize {
        self.lines().iter().filter(|line| line.starts_with(beginning)).count()
    }

    /// Waits until a line begins so.
    pub async fn tells(&self, beginning: &str) {
        self.until(|diary| diary.count(beginning) > 0).await;
    }

    /// Waits until something is true of it.
    pub async fn until(&self, is_true: impl Fn(&Self) -> bool) {
        let mut written = self.0.written.subscribe();
        let waiting = async {
            while !is_true(self) {
                written.changed().await.unwrap();
            }
        };
        let ended = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(ended.is_ok(), "it never becomes true: {:#?}", self.lines());
    }
}

impl Observer for Diary {
    fn observe(&self, event: &Event<'_>) {
        let line = match event {
            Event::Claimed { slot, epoch, origin, batch } => {
                let mut held = self.0.held.lock().unwrap();
                held.insert(*slot, epoch.get());
                let mut most = self.0.most.lock().unwrap();
                *most = held.len().max(*most);
                let how = match origin {
                    GrantOrigin::Fresh => "fresh",
                    GrantOrigin::TakeOver { .. } => "taken over",
                    GrantOrigin::Inherited => "inherited",
                    GrantOrigin::Convicted { .. } => "taken over, one message dead",
                    GrantOrigin::Stored => "stored",
                };
                let crashes = batch.map(|batch| format!(" crashes {}", batch.crashes)).unwrap_or_default();
                format!("claimed {slot} {how}{crashes}")
            }
            Event::Received { slot, batch, messages, deliveries, .. } => {
                format!("received {slot} batch {batch} of {messages}, delivery {deliveries}")
            }
            Event::Acked { slot, batch, .. } => format!("acked {slot} batch {batch}"),
            Event::Released { slot, .. } => self.ends(*slot, "released"),
            Event::Abandoned { slot, .. } => self.ends(*slot, "abandoned"),
            Event::Lost { slot, cause: LossCause::Renewal, .. } => self.ends(*slot, "lost by renewal"),
            Event::Lost { slot, cause: LossCause::Refused(error), .. } => {
                self.ends(*slot, &format!("lost by {}", error.code()))
            }
            Event::DeadlinePassed { slot, .. } => format!("deadline {slot}"),
            Event::HandlerFailed { slot, batch, error } => format!("failed {slot} batch {batch}: {error}"),
            Event::CallFailed { error } => format!("call failed: {}", error.code()),
            other => panic!("an event that no test knows: {other:?}"),
        };
        self.0.lines.lock().unwrap().push(line);
        self.0.written.send_replace(());
    }
}

/// An observer that does what it is told.
pub struct Hears<F>(pub F);

impl<F: Fn(&Event<'_>) + Send + Sync + 'static> Observer for Hears<F> {
    fn observe(&self, event: &Event<'_>) {
        (self.0)(event);
    }
}

impl Diary {
    fn ends(&self, slot: SlotIndex, how: &str) -> String {
        self.0.held.lock().unwrap().remove(&slot);
        format!("{how} {slot}")
    }
}

/// A handler that does what it is told.
pub struct Does<F>(pub F);

#[async_trait]
impl<F, R> BatchHandler for Does<F>
where
    F: Fn(Batch, SlotContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Done, HandlerError>> + Send,
{
    async fn handle(&self, batch: &Batch, slot: &SlotContext) -> Result<Done, HandlerError> {
        (self.0)(batch.clone(), slot.clone()).await
    }
}

/// A handler that has nothing to do.
pub fn nothing_to_do() -> impl BatchHandler {
    Does(|_, _| async { Ok(Done::Ack) })
}

/// A handler that shows every batch it gets, and ends it when it is answered.
pub fn shows() -> (impl BatchHandler, mpsc::UnboundedReceiver<Shown>) {
    let (show, shown) = mpsc::unbounded_channel();
    let handler = Does(move |batch, slot: SlotContext| {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let _ = show.send(Shown { batch, slot, answer });
        async move { answered.await.unwrap_or_else(|gone| Err(gone.into())) }
    });
    (handler, shown)
}

/// A batch in the hands of a handler.
pub struct Shown {
    pub batch: Batch,
    pub slot: SlotContext,
    pub answer: tokio::sync::oneshot::Sender<Result<Done, HandlerError>>,
}

/// The next batch that a handler shows.
pub async fn next(shown: &mut mpsc::UnboundedReceiver<Shown>) -> Shown {
    tokio::time::timeout(PATIENCE, shown.recv()).await.expect("a batch is handled").expect("the handler is there")
}
