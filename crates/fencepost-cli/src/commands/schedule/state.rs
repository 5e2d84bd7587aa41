//! How schedules stand, as every command tells it.

use std::time::Duration;

use fencepost::{NextFire, Nominal, Preview, QueueName, ScheduleStatus, Shift, Timestamp, Zone};
use serde_json::{Value, json};

use crate::text;

/// How late a schedule is at least that is shown as overdue: a leader that is there fires sooner.
const LATE: Duration = Duration::from_secs(5);

/// What a schedule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Waiting,
    /// It should have fired by now.
    Overdue,
    Paused,
    /// Nothing comes any more.
    Over,
    /// It cannot be read, or sent nothing when it last fired.
    Troubled,
}

impl State {
    pub const ALL: [Self; 5] = [Self::Waiting, Self::Overdue, Self::Paused, Self::Over, Self::Troubled];

    pub fn of(status: &ScheduleStatus, now: Timestamp) -> Self {
        match status {
            status if status.trouble().is_some() => Self::Troubled,
            ScheduleStatus { is_paused: true, .. } => Self::Paused,
            ScheduleStatus { next: None, .. } => Self::Over,
            ScheduleStatus { next: Some(next), .. } if now.since(next.due_at) > LATE => Self::Overdue,
            _ => Self::Waiting,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Overdue => "overdue",
            Self::Paused => "paused",
            Self::Over => "over",
            Self::Troubled => "problem",
        }
    }
}

/// The same in words, with the problem if there is one.
pub fn in_words(status: &ScheduleStatus, now: Timestamp) -> String {
    match status.trouble() {
        Some(problem) => format!("problem: {}", text::excerpt(problem, 60)),
        None => State::of(status, now).as_str().into(),
    }
}

/// When it fires next, for a sentence.
pub fn next_in_words(status: &ScheduleStatus, now: Timestamp) -> String {
    match status.next {
        Some(next) => {
            let local = local(status, next).map(|local| format!(" ({local})")).unwrap_or_default();
            let (when, at) = (text::relative(next.due_at, now), text::rfc3339(next.nominal_at));
            let verb = if next.due_at > now { "it fires" } else { "it was due" };
            format!("{verb} {when}, at {at}{local}")
        }
        None if status.is_paused => "it is paused".into(),
        None => "it does not fire any more".into(),
    }
}

/// The nominal time by the clocks of the schedule's zone; nothing where they show UTC, and for a zone that is not known here.
pub fn local(status: &ScheduleStatus, next: NextFire) -> Option<String> {
    let zone = Zone::parse(&status.definition.zone).ok()?;
    let shown = Preview::at(&zone, Nominal { at: next.nominal_at, shift: Shift::None });
    (shown.abbreviation != "UTC").then(|| shown.to_string())
}

/// What keeps a schedule from firing, or did the last time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Its queue is not there.
    TargetGone,
    /// Its queue was not there and is by now.
    TargetBack,
    /// Whoever led could not read it.
    Unreadable,
}

impl Trouble {
    /// What the problem that is recorded of a schedule means while these are the queues.
    pub fn of<'a>(status: &ScheduleStatus, mut queues: impl Iterator<Item = &'a QueueName>) -> Option<Self> {
        status.trouble()?;
        Some(match status.has_lost_its_queue() {
            false => Self::Unreadable,
            true if queues.any(|there| *there == status.definition.queue) => Self::TargetBack,
            true => Self::TargetGone,
        })
    }
}

/// How long ago the first one was due that was not fired.
pub fn overdue<'a>(schedules: impl IntoIterator<Item = &'a ScheduleStatus>, now: Timestamp) -> Option<Duration> {
    let first = schedules.into_iter().filter_map(|status| status.next).map(|next| next.due_at).min();
    first.filter(|due_at| *due_at < now).map(|due_at| now.since(due_at))
}

/// When it fires next, for programs.
pub fn next_at(status: &ScheduleStatus) -> Option<String> {
    status.next.map(|next| text::rfc3339(next.nominal_at))
}

/// A schedule for programs.
pub fn json(status: &ScheduleStatus) -> Value {
    let definition = &status.definition;
    json!({
        "name": definition.name.as_str(),
        "spec": definition.spec,
        "zone": definition.zone,
        "queue": definition.queue.as_str(),
        "kind": definition.kind.as_str(),
        "key": definition.key.as_ref().map(|key| key.as_str()),
        "misfire": definition.misfire.to_string(),
        "jitter_ms": u64::try_from(definition.jitter.as_millis()).unwrap_or(u64::MAX),
        "from": definition.from.map(text::rfc3339),
        "until": definition.until.map(text::rfc3339),
        "paused": status.is_paused,
        "next_at": next_at(status),
        "due_at": status.next.map(|next| text::rfc3339(next.due_at)),
        "last_at": status.last.map(|last| text::rfc3339(last.nominal_at)),
        "last_fired_at": status.last.map(|last| text::rfc3339(last.fired_at)),
        "last_message_id": status.last.map(|last| last.message.get()),
        "missed": status.missed,
        "problem": status.trouble(),
    })
}
