//! For engines: what a put and a tick make of a schedule, without any I/O. mem and SQLite store what is returned; PostgreSQL does the
//! same in SQL.

use super::{Fired, NextFire, Put, ScheduleDefinition, ScheduleStatus, Tick};
use crate::{QueueName, Timestamp};

/// What `definition` makes of the schedule that is there: what was done, and what to store, if anything.
///
/// The first revision is the anchor in microseconds, which is later for one that is made anew: no tick of the one before is its own.
pub fn judge_put(
    present: Option<&ScheduleStatus>,
    definition: &ScheduleDefinition,
    next: Option<NextFire>,
    anchor_at: Timestamp,
) -> (Put, Option<ScheduleStatus>) {
    let fresh = |revision, is_paused: bool| ScheduleStatus {
        definition: definition.clone(),
        revision,
        is_paused,
        anchor_at,
        next: next.filter(|_| !is_paused),
        last: None,
        missed: 0,
        problem: None,
        unreadable: None,
    };
    let Some(present) = present else { return (Put::Created, Some(fresh(anchor_at.as_micros(), false))) };
    if present.definition == *definition && !present.has_stopped() && present.unreadable.is_none() {
        return (Put::Unchanged, None);
    }
    let fresh = fresh(present.revision + 1, present.is_paused);
    let ScheduleStatus { last, missed, next, .. } = *present;
    let has_same_times = present.definition.has_times_of(definition);
    if has_same_times && (next.is_some() || present.is_paused) {
        let anchor_at = present.anchor_at;
        return (Put::Changed, Some(ScheduleStatus { last, missed, next, anchor_at, ..fresh }));
    }
    let is_left_out = !has_same_times && next.is_some_and(|next| next.due_at <= anchor_at);
    let missed = missed.saturating_add(is_left_out.into());
    (Put::Changed, Some(ScheduleStatus { last, missed, ..fresh }))
}

/// What a tick makes of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// Nothing: it was judged by what is no more.
    Changed,
    /// It goes on as [`ScheduleStatus::went_on`] says once these nominal times were sent, or found to have no queue.
    Fire(Vec<Timestamp>),
}

/// What `tick` makes of the schedule that is there.
pub fn judge_tick(present: Option<&ScheduleStatus>, tick: &Tick) -> Judged {
    let Some(present) = present.filter(|present| present.revision == tick.revision && !present.is_paused) else {
        return Judged::Changed;
    };
    // INVARIANT: nominal times only rise, so what is not after the last one fired before.
    let is_new = |at: &&Timestamp| present.last.is_none_or(|last| last.nominal_at < **at);
    Judged::Fire(tick.fires.iter().filter(is_new).copied().collect())
}

impl ScheduleStatus {
    /// Whether a problem keeps it from ever firing again by itself.
    pub fn has_stopped(&self) -> bool {
        self.problem.is_some() && self.next.is_none() && !self.is_paused
    }

    /// Why it does not fire, or did not the last time, also before whoever fires has found it.
    pub fn trouble(&self) -> Option<&str> {
        self.problem.as_deref().or(self.unreadable.as_deref())
    }

    /// Whether its queue was not there when it last was to fire.
    pub fn has_lost_its_queue(&self) -> bool {
        self.problem.as_ref().is_some_and(|problem| *problem == no_target(&self.definition.queue))
    }

    /// For engines: stopped until it is resumed; none when it is.
    pub fn paused(&self) -> Option<Self> {
        (!self.is_paused).then(|| Self { revision: self.revision + 1, is_paused: true, next: None, ..self.clone() })
    }

    /// For engines: resumed with `next`; none when it is not paused.
    pub fn resumed(&self, next: Option<NextFire>) -> Option<Self> {
        self.is_paused.then(|| Self {
            revision: self.revision + 1,
            is_paused: false,
            next,
            problem: None,
            ..self.clone()
        })
    }

    /// For engines: after `tick`, which sent `fired`.
    #[must_use]
    pub fn went_on(&self, tick: &Tick, fired: &[Fired]) -> Self {
        // One that has stopped has no next time: with one it goes on.
        let is_over = !fired.is_empty() || (self.next.is_none() && tick.next.is_some());
        let problem = tick.problem.clone().or_else(|| self.problem.clone().filter(|_| !is_over));
        Self {
            revision: self.revision + 1,
            next: tick.next,
            last: fired.last().copied().or(self.last),
            missed: self.missed.saturating_add(tick.missed),
            problem,
            ..self.clone()
        }
    }

    /// For engines: after `tick`, which found no queue for `unsent` nominal times.
    #[must_use]
    pub fn found_no_queue(&self, tick: &Tick, unsent: usize) -> Self {
        let problem = Some(no_target(&self.definition.queue));
        Self {
            missed: self.missed.saturating_add(tick.missed).saturating_add(unsent as u64),
            problem,
            ..self.went_on(tick, &[])
        }
    }
}

/// The problem of a schedule whose queue is not there.
fn no_target(queue: &QueueName) -> String {
    format!("the queue `{queue}` does not exist")
}
