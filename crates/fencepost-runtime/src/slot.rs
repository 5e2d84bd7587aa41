//! One owned slot: receive, handle, ack, until it is lost, asked back, or the worker stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencepost_core::{Batch, BatchId, Error, Kind, Release, Result, SlotGrant, Store, Topic};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::event::{Event, LossCause, Observer};
use crate::handler::{BatchHandler, Done, HandlerError, SlotContext};
use crate::keeper::Keeper;
use crate::settings::WorkerSettings;

/// The pause after a first failure, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// The part of the grace period of a stop that comes after the handler was told: a quarter.
const LAST_PART: u32 = 4;

/// How long a call on the store may take at least.
const BOUND: Duration = Duration::from_secs(5);

/// How long a handler that was aborted is waited for; one that never awaits cannot be ended.
const LAST_WAIT: Duration = Duration::from_millis(100);

/// What all slots of a worker share.
pub(crate) struct Crew {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) handler: Arc<dyn BatchHandler>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) settings: WorkerSettings,
    pub(crate) keeper: Keeper,
    /// Fires when the worker stops: finish what is in hand, then give back.
    pub(crate) stop: CancellationToken,
    pub(crate) tally: Tally,
}

impl Crew {
    /// A call on the store, which gets as long as the renewals' interval: one that hangs must not keep the worker from stopping.
    pub(crate) async fn bounded<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let bound = self.settings.interval().max(BOUND);
        tokio::time::timeout(bound, call).await.unwrap_or_else(|late| {
            Err(Error::new(
                Kind::UnknownOutcome,
                "cannot tell whether the call happened: the store did not answer in time",
            )
            .coded("call_timeout")
            .caused_by(late))
        })
    }
}

/// What a worker counts.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) batches: AtomicU64,
    pub(crate) messages: AtomicU64,
    pub(crate) lost: AtomicU64,
}

/// Why a slot's loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Given back, between batches or with the batch.
    GaveBack,
    /// Given back because nothing came for a long time.
    Idle,
    /// Lost.
    Lost,
}

/// Runs one slot from its grant to its end. `give_back` asks for it between batches.
pub(crate) async fn run(
    crew: Arc<Crew>,
    grant: SlotGrant,
    cancelled: CancellationToken,
    give_back: CancellationToken,
) -> Ended {
    let slot = Slot { context: SlotContext { token: grant.token, cancelled }, crew, give_back };
    // Dropped at any await, the loop takes its handler along.
    let _over = slot.context.cancelled.clone().drop_guard();
    let ended = slot.work().await;
    let ended = match ended {
        End::Between(ended) => slot.release(ended).await,
        End::WithBatch => slot.abandon().await,
        End::Lost => Ended::Lost,
    };
    slot.crew.keeper.let_go(slot.context.token.slot, slot.context.token.epoch);
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

/// Ends a task when it is dropped.
struct Leash(AbortHandle);

impl Drop for Leash {
    fn drop(&mut self) {
        self.0.abort();
    }
}

enum End {
    Between(Ended),
    WithBatch,
    Lost,
}

enum Handled {
    Acked,
    Failed,
    Stopped,
    Lost,
}

impl Slot {
    async fn work(&self) -> End {
        let Slot { crew, context, give_back } = self;
        let mut wakes = crew.store.wakes(&Topic::Messages(context.token.path.queue.clone()));
        let mut pause = PAUSE.0;
        let mut idle_since = Instant::now();
        let idle_bound = crew.settings.ttl.get() * 3;
        loop {
            if context.cancelled.is_cancelled() || give_back.is_cancelled() || crew.stop.is_cancelled() {
                return End::Between(Ended::GaveBack);
            }
            match crew.bounded(crew.store.receive(&context.token, crew.settings.max)).await {
                Ok(Some(batch)) => {
                    match self.handle(batch).await {
                        Handled::Acked => pause = PAUSE.0,
                        Handled::Failed => pause = self.rest(pause).await,
                        Handled::Stopped => return End::WithBatch,
                        Handled::Lost => return End::Lost,
                    }
                    idle_since = Instant::now();
                }
                Ok(None) if idle_since.elapsed() >= idle_bound => return End::Between(Ended::Idle),
                Ok(None) => {
                    let woken = async {
                        if wakes.woken().await.is_err() {
                            // No wake-up will come; polling finds out what is the matter.
                            std::future::pending::<()>().await;
                        }
                    };
                    tokio::select! {
                        () = woken => {}
                        () = tokio::time::sleep(crew.settings.poll) => {}
                        () = self.interrupted() => {}
                    }
                }
                Err(error) if self.is_loss(&error) => return End::Lost,
                Err(error) => {
                    crew.observer.observe(&Event::CallFailed { error: &error });
                    pause = self.rest(pause).await;
                }
            }
        }
    }

    /// Hands one batch to the handler and acks it.
    async fn handle(&self, batch: Batch) -> Handled {
        let Slot { crew, context, .. } = self;
        let (slot, epoch, id) = (context.token.slot, context.token.epoch, batch.id);
        let messages = batch.messages.len();
        crew.observer.observe(&Event::Received { slot, epoch, batch: id, messages, deliveries: batch.deliveries });

        let (handler, handed) = (crew.handler.clone(), context.clone());
        // A task of its own, so that a panic is caught and so that a handler that hangs can be left behind.
        let mut running = tokio::spawn(async move { handler.handle(&batch, &handed).await });
        let _leash = Leash(running.abort_handle());
        let finished = tokio::select! {
            finished = &mut running => Some(finished),
            left = self.must_end() => {
                if crew.keeper.holds(slot, epoch) && !crew.stop.is_cancelled() {
                    crew.observer.observe(&Event::DeadlinePassed { slot, epoch });
                }
                // Cancel, join, release: it is told, and gets what is left to end by itself.
                context.cancelled.cancel();
                tokio::time::timeout(left, &mut running).await.ok()
            }
        };
        let result: std::result::Result<Done, HandlerError> = match finished {
            Some(Ok(result)) => result,
            Some(Err(panic)) => Err(panic.into()),
            None => {
                running.abort();
                let _ = tokio::time::timeout(LAST_WAIT, running).await;
                Err("the handler did not end within the grace period".into())
            }
        };
        match result {
            Ok(done) => self.ack(id, done, messages).await,
            Err(error) => {
                if error.downcast_ref::<Error>().is_some_and(|refusal| self.is_loss(refusal)) {
                    return Handled::Lost;
                }
                crew.observer.observe(&Event::HandlerFailed { slot, batch: id, error: &error });
                if context.cancelled.is_cancelled() || crew.stop.is_cancelled() {
                    Handled::Stopped
                } else {
                    Handled::Failed
                }
            }
        }
    }

    async fn ack(&self, batch: BatchId, done: Done, messages: usize) -> Handled {
        let Slot { crew, context, .. } = self;
        let (slot, epoch) = (context.token.slot, context.token.epoch);
        if done == Done::Ack {
            let mut pause = PAUSE.0;
            while let Err(error) = crew.bounded(crew.store.ack(&context.token, batch)).await {
                if self.is_loss(&error) {
                    return Handled::Lost;
                }
                // An ack may be repeated: the batch acked last answers 0 and changes nothing.
                crew.observer.observe(&Event::CallFailed { error: &error });
                if context.cancelled.is_cancelled() || crew.stop.is_cancelled() {
                    return Handled::Stopped;
                }
                pause = self.rest(pause).await;
            }
        }
        crew.observer.observe(&Event::Acked { slot, epoch, batch });
        crew.tally.batches.fetch_add(1, Ordering::Relaxed);
        crew.tally.messages.fetch_add(messages as u64, Ordering::Relaxed);
        Handled::Acked
    }

    /// Waits until a handler has to be told to stop: its slot is lost or past its deadline, or the worker's grace period is nearly
    /// over. Returns how long it may take to end then.
    async fn must_end(&self) -> Duration {
        let grace = self.crew.settings.grace;
        let last = grace / LAST_PART;
        tokio::select! {
            () = self.context.cancelled.cancelled() => grace,
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

    /// Whether an error means that the slot is not this owner's any more; tells the observer then.
    fn is_loss(&self, error: &Error) -> bool {
        let lost = matches!(error.kind(), Kind::Fenced | Kind::NotFound);
        if lost {
            let (slot, epoch) = (self.context.token.slot, self.context.token.epoch);
            self.crew.observer.observe(&Event::Lost { slot, epoch, cause: LossCause::Refused(error) });
            self.context.cancelled.cancel();
        }
        lost
    }

    async fn release(&self, ended: Ended) -> Ended {
        let Slot { crew, context, .. } = self;
        let (slot, epoch) = (context.token.slot, context.token.epoch);
        match crew.bounded(crew.store.release_slot(&context.token)).await {
            Ok(Release::Released) => {
                crew.observer.observe(&Event::Released { slot, epoch });
                ended
            }
            Ok(Release::NotHeld) => Ended::Lost,
            // Inherited and never received: the batch goes to the next claimant at once.
            Err(error) if error.kind() == Kind::OpenBatch => self.abandon().await,
            Err(error) => {
                // It expires by itself.
                crew.observer.observe(&Event::CallFailed { error: &error });
                ended
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
