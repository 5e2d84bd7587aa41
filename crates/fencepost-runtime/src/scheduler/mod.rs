//! The scheduler: whoever leads fires what is due. Its lease elects it; the epoch of that lease guards each commit, so that nothing is
//! fired by a leader who is none any more. The loop only knows early when to stop.

mod event;
mod ticks;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fencepost_core::schedule::{ScheduleStatus, Tick, TickOutcome};
use fencepost_core::{
    AcquireLease, Acquired, Due, Error, HolderName, Kind, LeaseName, LeaseToken, QueueName, Result, Retry, Store,
    Timestamp, Topic, Ttl,
};
use fencepost_schedule::Schedule;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use self::event::Deaf;
pub use self::event::{ScheduleEvent, ScheduleObserver};
use crate::renewal::late;
use crate::waiting::{Waiting, acquire_resolved};

/// The lease of whoever fires the schedules of a store.
pub const LEADER: &str = "fencepost/schedules";

/// The TTL of that lease, unless told.
const TTL: Duration = Duration::from_secs(10);

/// How long the leader sleeps at most without looking, however long its lease is: a clock that is set forward makes schedules due earlier
/// than was told.
const CEILING: Duration = Duration::from_secs(30);

/// How soon it looks again for what could not be dealt with.
const AGAIN: Duration = Duration::from_millis(250);

/// How many schedules it fires in one commit at most.
const BATCH: u32 = 1_000;

/// How often a renewal is attempted before its error is the leader's.
const ATTEMPTS: u32 = 3;

/// How long [`Scheduler::serve`] waits while the store is away, at least and at most.
const SHORTEST_REST: Duration = Duration::from_millis(100);
const LONGEST_REST: Duration = Duration::from_secs(5);

/// How long a call may take, and how soon it is attempted again, however long the lease is.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Fires the schedules of a store while it leads.
///
/// # Guarantees
/// Each nominal time is fired once, however many schedulers there are and whatever becomes of them: its message and the schedule's going
/// on are one commit, which the epoch of the leader's lease guards and in which the schedule must stand as the leader has seen it.
///
/// ```
/// # use std::sync::Arc;
/// # use fencepost_core::*;
/// use fencepost_runtime::{CancellationToken, Scheduler, Scheduling};
/// use fencepost_schedule::{Schedule, Spec};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// # let store: Arc<dyn Store> = Arc::new(fencepost_mem::MemStore::new(Arc::new(HostClock)));
/// # let reports = QueueName::new("reports")?;
/// # store.create_queue(&reports, Partitions::default()).await?;
/// store.put(&Schedule::new(ScheduleName::new("report")?, Spec::parse("@every 1s")?, reports)).await?;
///
/// let (stop, scheduler) = (CancellationToken::new(), Scheduler::new(store.clone(), HolderName::new("host-1")?));
/// let serving = tokio::spawn({
///     let stop = stop.clone();
///     async move { scheduler.serve(&stop).await }
/// });
/// # let name = ScheduleName::new("report")?;
/// # while store.schedule(&name).await?.unwrap().last.is_none() {
/// #     tokio::time::sleep(std::time::Duration::from_millis(20)).await;
/// # }
/// stop.cancel();
/// serving.await.unwrap()?;
/// # Ok(())
/// # }
/// ```
pub struct Scheduler {
    store: Arc<dyn Store>,
    request: AcquireLease,
    observer: Arc<dyn ScheduleObserver>,
}

impl Scheduler {
    /// One that calls itself `holder` where others are told who leads, with a TTL of 10 s.
    pub fn new(store: Arc<dyn Store>, holder: HolderName) -> Self {
        let name = LeaseName::new(LEADER).expect("it is a name");
        let ttl = Ttl::new(TTL).expect("it is in range");
        Self { store, request: AcquireLease::new(name, holder).ttl(ttl), observer: Arc::new(Deaf) }
    }

    /// Sets how long nobody else leads after this one has vanished. The lease is renewed after a third of it.
    #[must_use]
    pub fn ttl(mut self, ttl: Ttl) -> Self {
        self.request.ttl = ttl;
        self
    }

    /// Tells somebody what happens.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn ScheduleObserver>) -> Self {
        self.observer = observer;
        self
    }

    /// Leads until it is stopped, if nobody else does: each look at what is due renews the lease, and so often that it also does while
    /// nothing is due.
    ///
    /// The lease is given back whenever this ends and still has it. Dropped, it leaves the lease to expire.
    ///
    /// # Errors
    /// `leadership_lost` when somebody else leads or has taken the lease; nothing was fired after that. What a renewal, or a look or a commit
    /// under a renewed lease, failed with, unchanged, once three attempts have: `unavailable`, with the code `store_closed` when the store was
    /// closed.
    pub async fn run_schedules(&self, stop: &CancellationToken) -> Result<()> {
        match acquire_resolved(&*self.store, &self.request).await? {
            Acquired::Granted { token, .. } => self.lead(&token, stop).await,
            Acquired::Held { holder, epoch, .. } => {
                Err(leadership_lost(format!("`{holder}` leads")).with("holder", holder).with("current_epoch", epoch))
            }
            Acquired::Contended => Err(leadership_lost("somebody else is about to lead".into())),
        }
    }

    /// Supervises until it is stopped, and again after a pause whenever the store was away: what a program calls that is to go on firing.
    ///
    /// # Errors
    /// Those of [`Scheduler::supervise`] after which no attempt could help ([`Retry::Never`]), such as a closed store.
    pub async fn serve(&self, stop: &CancellationToken) -> Result<()> {
        let mut pause = SHORTEST_REST;
        loop {
            let since = Instant::now();
            let Err(error) = self.supervise(stop).await else { return Ok(()) };
            if error.retry() == Retry::Never {
                return Err(error);
            }
            self.observer.hear(ScheduleEvent::Away { error: &error });
            pause = if since.elapsed() > LONGEST_REST { SHORTEST_REST } else { (pause * 2).min(LONGEST_REST) };
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Waits for its turn, leads, and waits again whenever somebody else leads; until it is stopped.
    ///
    /// A store that is away for longer than a few seconds ends it, also while it waits; [`Scheduler::serve`] goes on then.
    ///
    /// # Errors
    /// Whatever ends [`Scheduler::run_schedules`] other than `leadership_lost`.
    pub async fn supervise(&self, stop: &CancellationToken) -> Result<()> {
        loop {
            let acquired = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                acquired = self.store.acquire_within(&self.request, Duration::MAX) => acquired?,
            };
            let Acquired::Granted { token, .. } = acquired else { continue };
            match self.lead(&token, stop).await {
                Err(error) if error.kind() == Kind::LeadershipLost => {}
                other => return other,
            }
        }
    }

    async fn lead(&self, token: &LeaseToken, stop: &CancellationToken) -> Result<()> {
        self.observer.hear(ScheduleEvent::Leads { epoch: token.epoch });
        let outcome = self.fire_until(token, stop).await;
        if outcome.as_ref().is_err_and(|error| error.kind() == Kind::LeadershipLost) {
            self.observer.hear(ScheduleEvent::Lost { epoch: token.epoch });
            return outcome;
        }
        // What came of the term is told, whatever comes of this, and before the lease ends by itself.
        let released = timeout(self.pause(), self.store.release_lease(token)).await;
        if let Ok(Err(error)) = released {
            tracing::debug!(%error, "the lease of the scheduler was not given back");
        }
        outcome
    }

    async fn fire_until(&self, token: &LeaseToken, stop: &CancellationToken) -> Result<()> {
        let mut changed = self.store.wakes(&Topic::Schedules);
        let (mut is_first, mut failures) = (true, 0);
        loop {
            let (looked, due) = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                looked = self.look(token) => looked?,
            };
            let looks_at = match self.fire(token, &due, &mut is_first).await {
                Ok(rest) => {
                    failures = 0;
                    looked + rest
                }
                // The next attempt finds what this one has done.
                Err(error) if error.retry() != Retry::Never && failures + 1 < ATTEMPTS => {
                    failures += 1;
                    Instant::now() + self.pause()
                }
                Err(error) => return Err(error),
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                // Of a store that was closed the renewal tells.
                _ = changed.woken() => {}
                () = sleep_until(looks_at.min(looked + self.request.ttl.get() / 3)) => {}
            }
        }
    }

    /// From one attempt to the next, and how long one may take: all of them fit into a third of the TTL.
    fn pause(&self) -> Duration {
        (self.request.ttl.get() / (3 * ATTEMPTS)).min(LONGEST_PAUSE)
    }

    /// How long another call may take: the looks that follow, and find what it has done, still fit into the lease.
    fn bound(&self) -> Duration {
        (self.request.ttl.get() / 3).min(LONGEST_PAUSE)
    }

    /// Renews the lease and looks for what is due: attempts it a few times within a third of the TTL, each in bounded time. Returns also
    /// when it looked.
    async fn look(&self, token: &LeaseToken) -> Result<(Instant, Due)> {
        let (bound, mut attempt) = (self.pause(), 1);
        loop {
            let looked = Instant::now();
            let look = self.store.due_schedules(token, Some(self.request.ttl), BATCH);
            let error = match timeout(bound, look).await {
                Ok(Ok(Some(due))) => return Ok((looked, due)),
                Ok(Ok(None)) => return Err(leadership_lost("the lease was lost".into())),
                Ok(Err(error)) => error,
                Err(_) => late(),
            };
            // One whose end is unknown is repeated, too: a renewal does no more the second time.
            if attempt == ATTEMPTS || error.retry() == Retry::Never {
                return Err(error);
            }
            attempt += 1;
            sleep_until(looked + bound).await;
        }
    }

    /// Lets schedules go on that an earlier leader could not read and this one can. Returns whether there were any.
    async fn revive(&self, token: &LeaseToken, now: Timestamp) -> Result<bool> {
        let all = timeout(self.bound(), self.store.schedule_status()).await.unwrap_or_else(|_| Err(late()))?;
        // By its revision: one that was put or removed meanwhile stays so.
        let revived = |status: &ScheduleStatus| {
            let schedule = Schedule::of(status).ok().filter(|_| status.has_stopped())?;
            let next = Some(schedule.next_after(status.anchor_at, now)?);
            let (name, revision) = (status.definition.name.clone(), status.revision);
            Some(Tick { name, revision, fires: Vec::new(), missed: 0, next, problem: None })
        };
        let ticks: Vec<Tick> = all.iter().filter_map(revived).collect();
        for ticks in ticks.chunks(BATCH as usize) {
            self.commit(token, ticks).await?;
        }
        Ok(!ticks.is_empty())
    }

    /// Fires what is due, as much as one commit takes; how long after the look the next one is to come.
    async fn fire(&self, token: &LeaseToken, due: &Due, is_first: &mut bool) -> Result<Duration> {
        if *is_first {
            let has_revived = self.revive(token, due.now).await?;
            *is_first = false;
            if has_revived {
                return Ok(Duration::ZERO);
            }
        }
        let until = |at: Timestamp| at.since(due.now);
        let others = due.next_due_at.map_or(CEILING, until).min(CEILING);
        if due.schedules.is_empty() {
            return Ok(others);
        }
        let ticks = ticks::judge(&due.schedules, due.now);
        let outcomes = match self.commit(token, &ticks).await {
            Err(error) if error.kind() == Kind::Busy => {
                self.commit_by_queue(token, &due.schedules, &ticks).await?.ok_or(error)?
            }
            outcomes => outcomes?,
        };
        self.tell(&due.schedules, &ticks, &outcomes);
        if ticks.len() < due.schedules.len() {
            return Ok(Duration::ZERO);
        }
        // Of those that are something else by now, or that somebody has locked, another look tells.
        let next_of = |(tick, outcome): (&Tick, &TickOutcome)| match outcome {
            TickOutcome::Changed => Some(AGAIN),
            _ => tick.next.map(|next| until(next.due_at)),
        };
        Ok(ticks.iter().zip(&outcomes).filter_map(next_of).fold(others, Duration::min))
    }

    /// Commits what is sent to each queue by itself, so that one that somebody has locked keeps no other from its messages. Nothing when that
    /// helped none of them.
    async fn commit_by_queue(
        &self,
        token: &LeaseToken,
        due: &[ScheduleStatus],
        ticks: &[Tick],
    ) -> Result<Option<Vec<TickOutcome>>> {
        let mut by_queue: BTreeMap<&QueueName, Vec<usize>> = BTreeMap::new();
        for (place, status) in due.iter().take(ticks.len()).enumerate() {
            by_queue.entry(&status.definition.queue).or_default().push(place);
        }
        let (mut outcomes, mut has_helped) = (vec![TickOutcome::Changed; ticks.len()], false);
        for (queue, places) in by_queue.iter().filter(|_| by_queue.len() > 1) {
            let own: Vec<Tick> = places.iter().map(|place| ticks[*place].clone()).collect();
            match self.commit(token, &own).await {
                Ok(made) => {
                    has_helped = true;
                    places.iter().zip(made).for_each(|(place, outcome)| outcomes[*place] = outcome);
                }
                Err(error) if error.kind() == Kind::Busy => {
                    tracing::warn!(%queue, %error, "schedules have to wait: somebody has their queue locked");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(has_helped.then_some(outcomes))
    }

    async fn commit(&self, token: &LeaseToken, ticks: &[Tick]) -> Result<Vec<TickOutcome>> {
        let fired = timeout(self.bound(), self.store.fire_schedules(token, ticks)).await.unwrap_or_else(|_| {
            let unanswered = "cannot tell whether the schedules were fired: the store has not answered in time";
            Err(Error::new(Kind::UnknownOutcome, unanswered).during("fire_schedules"))
        });
        fired.map_err(|error| match error.kind() {
            Kind::Fenced => leadership_lost("the lease was lost".into()).caused_by(error),
            _ => error,
        })
    }

    fn tell(&self, due: &[ScheduleStatus], ticks: &[Tick], outcomes: &[TickOutcome]) {
        for ((status, tick), outcome) in due.iter().zip(ticks).zip(outcomes) {
            let schedule = &status.definition.name;
            match (outcome, &tick.problem) {
                (TickOutcome::Changed, _) => {}
                (TickOutcome::TargetGone, _) => {
                    let queue = &status.definition.queue;
                    tracing::warn!(%schedule, %queue, "a schedule did not fire: its queue is not there");
                    self.observer.hear(ScheduleEvent::TargetGone { schedule, queue });
                }
                (TickOutcome::Fired(_), Some(problem)) => {
                    tracing::warn!(%schedule, problem, "a schedule was stopped: it cannot be read");
                    self.observer.hear(ScheduleEvent::Unreadable { schedule, problem });
                }
                (TickOutcome::Fired(fired), None) => {
                    self.observer.hear(ScheduleEvent::Fired { schedule, fired, missed: tick.missed });
                }
            }
        }
    }
}

fn leadership_lost(why: String) -> Error {
    Error::new(Kind::LeadershipLost, format!("cannot fire the schedules: {why}"))
        .during("run_schedules")
        .hinted("`serve` and `supervise` wait for their turn and lead again")
}
