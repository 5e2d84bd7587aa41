//! What specs mean, by tables that were written from the contract, by scans of every minute, and by random text.

mod definition;
mod dst;
mod jitter;
mod misfire;
mod parse;
mod scan;

use std::time::Duration;

use fencepost_core::schedule::{ScheduleStatus, Tick};
use fencepost_core::{QueueName, ScheduleName, Timestamp};
use fencepost_schedule::{Nominal, Schedule, Spec, Timetable, Zone};

/// An instant in RFC 3339.
#[track_caller]
fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A spec in a zone, whose intervals count from 2026-01-01T00:00:00Z.
#[track_caller]
fn timetable(spec: &str, zone: &str) -> Timetable {
    Timetable::new(Spec::parse(spec).unwrap(), Zone::parse(zone).unwrap(), at("2026-01-01T00:00:00Z"))
}

/// The nominal times after an instant, from the first on.
fn after(timetable: &Timetable, at: Timestamp) -> impl Iterator<Item = Nominal> {
    std::iter::successors(timetable.next_after(at), |last| timetable.next_after(last.at))
}

#[track_caller]
fn schedule(spec: &str) -> Schedule {
    Schedule::new(ScheduleName::new("s").unwrap(), Spec::parse(spec).unwrap(), QueueName::new("q").unwrap())
}

/// How an engine shows a schedule that was put at an instant.
fn put(schedule: &Schedule, now: Timestamp) -> ScheduleStatus {
    ScheduleStatus {
        definition: schedule.definition().clone(),
        revision: 1,
        is_paused: false,
        anchor_at: now,
        next: schedule.next_after(now, now),
        last: None,
        missed: 0,
        problem: None,
        unreadable: None,
    }
}

/// What is to be done so long after an instant.
fn tick_after(status: &ScheduleStatus, since: Timestamp, passed: Duration) -> Tick {
    fencepost_schedule::tick(status, since + passed)
}
