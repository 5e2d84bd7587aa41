//! One owned slot: receive, handle, ack, until it is lost, asked back, or the worker stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencepost_core::{
    AckReceived, Batch, BatchId, Error, Kind, Release, Result, SlotToken, Store, Topic, WakeReceiver,
};
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::activity::Activity;
use crate::event::{Event, LossCause, Witness};
use crate::failure::{Unfinished, catching, is_store_trouble};
use crate::handler::{BatchHandler, Done, HandlerError, SlotContext};
use crate::keeper::Keeper;
use crate::settings::WorkerSettings;
use crate::waiting::DueRest;
use crate::worker::Control;

/// The pause after a first failure, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// The part of the grace period of a stop that comes after the handler was told: a quarter.
const LAST_PART: u32 = 4;

/// How long a call on the store may take: the renewals' interval, within these.
const BOUND: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(10));

/// How long a handler that was aborted is waited for; one that never awaits cannot be ended.
const LAST_WAIT: Duration = Duration::from_millis(100);

/// What all slots of a worker share.
pub(crate) struct Crew {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) handler: Arc<dyn BatchHandler>,
    pub(crate) observer: Witness,
    pub(crate) settings: WorkerSettings,
    pub(crate) keeper: Keeper,
    /// Fires when the worker stops: finish what is in hand, then give back.
    pub(crate) stop: CancellationToken,
    pub(crate) activity: Activity,
    pub(crate) tally: Tally,
    /// How many batches may be handled at once.
    pub(crate) turns: Semaphore,
    pub(crate) control: Control,
    /// Told when a message that was held back is due.
    pub(crate) due: Notify,
}

impl Crew {
    /// A call on the store within a bound: one that hangs must not keep the worker from stopping. The answer that the store was
    /// closed stops it.
    pub(crate) async fn bounded<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let bound = self.settings.interval().clamp(BOUND.0, BOUND.1);
        let answer = tokio::time::timeout(bound, call).await.unwrap_or_else(|late| {
            Err(Error::new(
                Kind::UnknownOutcome,
                "cannot tell whether the call happened: the store did not answer in time",
            )
            .coded("call_timeout")
            .caused_by(late))
        });
        if answer.as_ref().is_err_and(|error| error.code() == "store_closed") {
            self.stop.cancel();
        }
        answer
    }
}

/// What a worker counts.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) batches: AtomicU64,
    pub(crate) messages: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) lost: AtomicU64,
}

/// Why a slot's loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Given back, between batches or with the batch.
    GaveBack,
    /// Lost.
    Lost,
}

/// Runs one slot from its grant to its end. `give_back` asks for it between batches.
pub(crate) async fn run(crew: Arc<Crew>, context: SlotContext, give_back: CancellationToken) -> Ended {
    let slot = Slot { crew, context, give_back };
    // Dropped at any await, the loop takes its handler along.
    let _over = slot.context.cancelled.clone().drop_guard();
    let kept = KeptSlot(&slot);
    let ended = slot.work().await;
    // ORDER: let go before it is given back, so that a heartbeat in between does not find it lost.
    drop(kept);
    let ended = match ended {
        End::Between => slot.release().await,
        End::WithBatch => slot.abandon().await,
        End::Lost => Ended::Lost,
    };
    if ended == Ended::Lost {
        slot.crew.tally.lost.fetch_add(1, Ordering::Relaxed);
    }
    ended
}

struct Slot {
    crew: Arc<Crew>,
    context: SlotContext,
    give_back: CancellationToken,
}

/// A slot that is renewed until this is dropped, also by a panic of its loop.
struct KeptSlot<'a>(&'a Slot);

impl Drop for KeptSlot<'_> {
    fn drop(&mut self) {
        let Slot { crew, context, .. } = self.0;
        crew.keeper.let_go(context.token.slot, context.token.epoch);
    }
}

/// Ends a task when it is dropped.
pub(crate) struct Leash(pub(crate) AbortHandle);

impl Drop for Leash {
    fn drop(&mut self) {
        self.0.abort();
    }
}

enum End {
    Between,
    WithBatch,
    Lost,
}

enum Handled {
    /// Acked, with the next batch when one was received with it.
    Acked(Option<Batch>),
    /// The batch stays open and is received again.
    Again,
    Stopped,
    Lost,
}

impl Slot {
    async fn work(&self) -> End {
        let Slot { crew, context, give_back } = self;
        let mut wakes = crew.store.wakes(&Topic::Messages(context.token.path.queue.clone()));
        let mut pause = PAUSE.0;
        let (mut next, mut due_rest) = (None, DueRest::default());
        loop {
            if context.cancelled.is_cancelled() || give_back.is_cancelled() || crew.stop.is_cancelled() {
                return if next.is_some() { End::WithBatch } else { End::Between };
            }
            if next.is_none() && !crew.control.is_running() {
                self.unless_interrupted(crew.control.running()).await;
                continue;
            }
            let received = match next.take() {
                Some(batch) => Ok(Some(batch)),
                None => crew.bounded(crew.store.receive(&context.token, crew.settings.max)).await,
            };
            match received {
                Ok(Some(batch)) => match self.handle(batch).await {
                    Handled::Acked(received) => (pause, next) = (PAUSE.0, received),
                    Handled::Again => pause = self.rest(pause).await,
                    Handled::Stopped => return End::WithBatch,
                    Handled::Lost => return End::Lost,
                },
                Ok(None) => self.sleep(&mut wakes, &mut due_rest).await,
                Err(error) if self.is_loss(&error) => return End::Lost,
                Err(error) => {
                    crew.observer.observe(&Event::CallFailed { error: &error });
                    pause = self.rest(pause).await;
                }
            }
        }
    }

    /// Waits for messages: for a wake-up, for the next one that becomes due, or for the next poll.
    async fn sleep(&self, wakes: &mut WakeReceiver, rest: &mut DueRest) {
        let Slot { crew, context, .. } = self;
        let SlotToken { path, slot, .. } = &context.token;
        let due = crew.bounded(crew.store.next_due(path, *slot)).await.unwrap_or_default();
        if due.is_some_and(|due| !due.is_zero() && due < crew.settings.idle()) {
            // What becomes due soon is waited for, so this worker has something to do.
            crew.activity.restart();
        }
        let until = rest.until(due, crew.settings.poll);
        let is_due = due.is_some_and(|due| due <= until);
        let woken = async {
            if wakes.woken().await.is_err() {
                // No wake-up will come; polling finds out what is the matter.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = woken => {}
            () = tokio::time::sleep(until) => {
                if is_due {
                    // One that was held back has to be appended first.
                    crew.due.notify_one();
                }
            }
            () = self.interrupted() => {}
        }
    }

    /// Hands one batch to the handler and acks it.
    async fn handle(&self, batch: Batch) -> Handled {
        let Slot { crew, context, .. } = self;
        let (slot, epoch, id) = (context.token.slot, context.token.epoch, batch.id);
        let _in_hand = crew.activity.begin();
        let Some(Ok(_turn)) = self.unless_interrupted(crew.turns.acquire()).await else { return Handled::Stopped };
        let messages = batch.messages.len();
        crew.observer.observe(&Event::Received { slot, epoch, batch: id, messages, deliveries: batch.deliveries });

        let context = context.with(&crew.store, id);
        let result = self.run(batch, &context).await;
        let error = match result {
            Ok(done) => return self.ack(id, done, messages as u32).await,
            Err(error) => error,
        };
        if let Some(refusal) = context.refusal(&error) {
            self.tell_lost(refusal);
            return Handled::Lost;
        }
        crew.observer.observe(&Event::HandlerFailed { slot, batch: id, error: &error });
        if context.cancelled.is_cancelled() || crew.stop.is_cancelled() {
            return Handled::Stopped;
        }
        if error.is::<Unfinished>() || is_store_trouble(&error) {
            return Handled::Again;
        }
        match context.record_batch(crew.settings.max, &error).await {
            Ok(()) => self.ack(id, Done::Ack, messages as u32).await,
            Err(error) if self.is_loss(&error) => Handled::Lost,
            Err(error) => {
                crew.observer.observe(&Event::CallFailed { error: &error });
                Handled::Again
            }
        }
    }

    /// Runs the handler in a task of its own, so that a panic is caught and so that one that hangs can be left behind.
    async fn run(&self, batch: Batch, context: &SlotContext) -> std::result::Result<Done, HandlerError> {
        let Slot { crew, .. } = self;
        let SlotToken { path, slot, epoch } = &context.token;
        let span = tracing::info_span!("batch", consumer = %path, %slot, %epoch, batch = %batch.id);
        let (handler, handed) = (crew.handler.clone(), context.clone());
        let handling = async move { handler.handle(&batch, &handed).await };
        let mut running = tokio::spawn(catching(handling).instrument(span));
        let _leash = Leash(running.abort_handle());
        let finished = tokio::select! {
            finished = &mut running => Some(finished),
            left = self.must_end() => {
                if crew.keeper.holds(*slot, *epoch) && !crew.stop.is_cancelled() {
                    crew.observer.observe(&Event::DeadlinePassed { slot: *slot, epoch: *epoch });
                }
                // Cancel, join, release: it is told, and gets what is left to end by itself.
                context.cancelled.cancel();
                tokio::time::timeout(left, &mut running).await.ok()
            }
        };
        match finished {
            Some(ended) => ended.unwrap_or_else(|panic| Err(panic.into())),
            None => {
                running.abort();
                let _ = tokio::time::timeout(LAST_WAIT, running).await;
                Err("the handler did not end within the grace period".into())
            }
        }
    }

    /// Acks a batch, and receives the next one with it unless the slot is wanted back.
    async fn ack(&self, batch: BatchId, done: Done, messages: u32) -> Handled {
        let Slot { crew, context, .. } = self;
        let (slot, epoch) = (context.token.slot, context.token.epoch);
        let AckReceived { acked, next } = match done {
            Done::Acked => AckReceived { acked: messages, next: None },
            Done::Ack => match self.ack_until_answered(batch, messages).await {
                Ok(answer) => answer,
                Err(ended) => return ended,
            },
        };
        crew.observer.observe(&Event::Acked { slot, epoch, batch });
        crew.tally.batches.fetch_add(1, Ordering::Relaxed);
        crew.tally.messages.fetch_add(acked.into(), Ordering::Relaxed);
        crew.tally.failed.fetch_add(messages.saturating_sub(acked).into(), Ordering::Relaxed);
        Handled::Acked(next)
    }

    /// An ack may be repeated: the batch acked last answers 0 and changes nothing.
    async fn ack_until_answered(&self, batch: BatchId, messages: u32) -> std::result::Result<AckReceived, Handled> {
        let Slot { crew, context, give_back } = self;
        let (mut pause, mut is_first) = (PAUSE.0, true);
        loop {
            let ends = crew.stop.is_cancelled() || give_back.is_cancelled() || !crew.control.is_running();
            let answer = if ends {
                let acking = crew.store.ack(&context.token, batch);
                crew.bounded(acking).await.map(|acked| AckReceived { acked, next: None })
            } else {
                crew.bounded(crew.store.ack_receive(&context.token, batch, crew.settings.max)).await
            };
            match answer {
                Ok(answer) if is_first => return Ok(answer),
                // Asked a second time it tells 0, whatever the first one did.
                Ok(answer) => return Ok(AckReceived { acked: messages, ..answer }),
                Err(error) if self.is_loss(&error) => return Err(Handled::Lost),
                Err(error) => {
                    crew.observer.observe(&Event::CallFailed { error: &error });
                    if context.cancelled.is_cancelled() || crew.stop.is_cancelled() {
                        return Err(Handled::Stopped);
                    }
                    (pause, is_first) = (self.rest(pause).await, false);
                }
            }
        }
    }

    /// Waits for something unless the slot is wanted back or lost before.
    async fn unless_interrupted<T>(&self, waiting: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            found = waiting => Some(found),
            () = self.interrupted() => None,
        }
    }

    /// Waits until a handler has to be told to stop: its slot is lost or past its deadline, or the worker's grace period is nearly
    /// over. Returns how long it may take to end then; the margin of a deadline is the time for that.
    async fn must_end(&self) -> Duration {
        let (grace, margin) = (self.crew.settings.grace, self.crew.settings.margin);
        let last = grace / LAST_PART;
        tokio::select! {
            () = self.context.cancelled.cancelled() => margin.min(grace),
            () = async {
                self.crew.stop.cancelled().await;
                tokio::time::sleep(grace - last).await;
            } => last,
        }
    }

    async fn interrupted(&self) {
        tokio::select! {
            () = self.context.cancelled.cancelled() => {}
            () = self.give_back.cancelled() => {}
            () = self.crew.stop.cancelled() => {}
        }
    }

    /// Pauses after a failure and returns the next pause.
    async fn rest(&self, pause: Duration) -> Duration {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = self.interrupted() => {}
        }
        (pause * 2).min(PAUSE.1)
    }

    /// Whether the error of a call by the worker itself means that the slot is not this owner's any more; tells it then.
    fn is_loss(&self, error: &Error) -> bool {
        let lost = matches!(error.kind(), Kind::Fenced | Kind::NotFound);
        if lost {
            self.tell_lost(error);
        }
        lost
    }

    fn tell_lost(&self, refusal: &Error) {
        let (slot, epoch) = (self.context.token.slot, self.context.token.epoch);
        self.crew.observer.observe(&Event::Lost { slot, epoch, cause: LossCause::Refused(refusal) });
        self.context.cancelled.cancel();
    }

    async fn release(&self) -> Ended {
        let Slot { crew, context, .. } = self;
        let (slot, epoch) = (context.token.slot, context.token.epoch);
        match crew.bounded(crew.store.release_slot(&context.token)).await {
            Ok(Release::Released) => {
                crew.observer.observe(&Event::Released { slot, epoch });
                Ended::GaveBack
            }
            Ok(Release::NotHeld) => Ended::Lost,
            // Inherited and never received: the batch goes to the next claimant at once.
            Err(error) if error.kind() == Kind::OpenBatch => self.abandon().await,
            Err(error) => {
                // It expires by itself.
                crew.observer.observe(&Event::CallFailed { error: &error });
                Ended::GaveBack
            }
        }
    }

    async fn abandon(&self) -> Ended {
        let Slot { crew, context, .. } = self;
        let (slot, epoch) = (context.token.slot, context.token.epoch);
        match crew.bounded(crew.store.abandon_slot(&context.token)).await {
            Ok(Release::Released) => {
                crew.observer.observe(&Event::Abandoned { slot, epoch });
                Ended::GaveBack
            }
            Ok(Release::NotHeld) => Ended::Lost,
            Err(error) => {
                crew.observer.observe(&Event::CallFailed { error: &error });
                Ended::GaveBack
            }
        }
    }
}
