//! Keeping what a worker holds: one heartbeat per interval renews its membership and all its slots, on a task of its own.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fencepost_core::{Clock, Deadline, Epoch, Heartbeat, Nonce, Pulse, Renewal, Result, SlotIndex, SlotToken, Store};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::deadline::{DeadlineWatcher, Watched};
use crate::event::{Event, LossCause, Witness};
use crate::handler::SlotContext;
use crate::renewal::keep_renewing;
use crate::settings::WorkerSettings;

/// How long leaving may take.
const LEAVE: Duration = Duration::from_secs(5);

/// What a worker holds, and how it is kept.
pub(crate) struct Keeper {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    observer: Witness,
    settings: WorkerSettings,
    member: Nonce,
    deadlines: DeadlineWatcher,
    held: Mutex<BTreeMap<SlotIndex, Kept>>,
    pulse: watch::Sender<Option<Pulse>>,
}

struct Kept {
    epoch: Epoch,
    cancelled: CancellationToken,
    watched: Arc<Watched>,
}

impl Keeper {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        observer: Witness,
        settings: WorkerSettings,
    ) -> Result<Self> {
        Ok(Self {
            store,
            deadlines: DeadlineWatcher::start(clock.clone()),
            clock,
            observer,
            settings,
            member: Nonce::random()?,
            held: Mutex::default(),
            pulse: watch::channel(None).0,
        })
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<SlotIndex, Kept>> {
        self.held.lock().expect("no panic while what is held is locked")
    }

    /// What the latest heartbeat learned.
    pub(crate) fn pulses(&self) -> watch::Receiver<Option<Pulse>> {
        self.pulse.subscribe()
    }

    /// Keeps a slot that was granted to a request sent at `deadline`'s anchor, until it is let go. The context's token fires when
    /// it is lost or its deadline passes.
    pub(crate) fn keep(&self, token: SlotToken, deadline: Deadline) -> SlotContext {
        let (slot, epoch, cancelled) = (token.slot, token.epoch, CancellationToken::new());
        let watched = Arc::new(self.deadlines.watch(deadline, cancelled.clone()));
        let context =
            SlotContext { token, cancelled: cancelled.clone(), deadline: Arc::downgrade(&watched), open: None };
        let older = self.held().insert(slot, Kept { epoch, cancelled, watched });
        // The grant before expired and was not known to be: nothing would ever tell its handler.
        if let Some(older) = older {
            self.tell_lost(slot, &older);
        }
        context
    }

    /// Stops keeping a slot, if it is still held by this epoch.
    pub(crate) fn let_go(&self, slot: SlotIndex, epoch: Epoch) {
        let mut held = self.held();
        if held.get(&slot).is_some_and(|kept| kept.epoch == epoch) {
            held.remove(&slot);
        }
    }

    /// Whether the slot is kept by this epoch: not lost, as far as renewals know.
    pub(crate) fn holds(&self, slot: SlotIndex, epoch: Epoch) -> bool {
        self.held().get(&slot).is_some_and(|kept| kept.epoch == epoch)
    }

    /// The deadline of a grant whose request is sent now.
    pub(crate) fn deadline_of_request(&self) -> Deadline {
        Deadline::of_request(self.clock.boot(), self.settings.ttl, self.settings.margin)
    }

    /// One heartbeat: joins or renews.
    pub(crate) async fn beat(&self) -> Result<Pulse> {
        let held: Vec<(SlotIndex, Epoch)> = self.held().iter().map(|(slot, kept)| (*slot, kept.epoch)).collect();
        let heartbeat = Heartbeat {
            path: self.settings.path.clone(),
            member: self.member.clone(),
            worker: self.settings.name.clone(),
            ttl: self.settings.ttl,
            held: held.clone(),
        };
        // ORDER: the deadline is anchored before the request is sent, so that a slow reply never stretches it.
        let deadline = self.deadline_of_request();
        let pulse = self.store.heartbeat(&heartbeat).await?;
        for ((slot, epoch), renewal) in held.into_iter().zip(&pulse.held) {
            match renewal {
                Renewal::Held => {
                    if let Some(kept) = self.held().get(&slot).filter(|kept| kept.epoch == epoch) {
                        kept.watched.move_to(deadline);
                    }
                }
                Renewal::Lost => self.lost(slot, epoch),
            }
        }
        self.pulse.send_replace(Some(pulse.clone()));
        Ok(pulse)
    }

    fn lost(&self, slot: SlotIndex, epoch: Epoch) {
        let removed = {
            let mut held = self.held();
            // RACE: a slot given back and claimed again meanwhile has another epoch.
            if held.get(&slot).is_some_and(|kept| kept.epoch == epoch) { held.remove(&slot) } else { None }
        };
        if let Some(kept) = removed {
            self.tell_lost(slot, &kept);
        }
    }

    fn tell_lost(&self, slot: SlotIndex, kept: &Kept) {
        self.observer.observe(&Event::Lost { slot, epoch: kept.epoch, cause: LossCause::Renewal });
        kept.cancelled.cancel();
    }

    /// Renews until `ended`. The old deadlines stand while attempts fail or are late.
    pub(crate) async fn run(&self, ended: CancellationToken) {
        let renewing = keep_renewing(
            self.settings.interval(),
            || self.beat(),
            |answer| {
                if let Err(error) = answer {
                    self.observer.observe(&Event::CallFailed { error: &error });
                }
                ControlFlow::Continue(())
            },
        );
        tokio::select! {
            () = ended.cancelled() => {}
            () = renewing => {}
        }
    }

    /// Ends the membership.
    pub(crate) async fn leave(&self) {
        let left = tokio::time::timeout(LEAVE, self.store.leave(&self.settings.path, &self.member)).await;
        if let Ok(Err(error)) = left {
            // It lapses by itself.
            self.observer.observe(&Event::CallFailed { error: &error });
        }
    }
}
