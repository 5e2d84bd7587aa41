//! How schedules stand, as every command tells it.

use std::time::Duration;

use fencepost::{ScheduleStatus, Timestamp};
use serde_json::{Value, json};

use crate::text;

/// What a schedule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Waiting,
    Paused,
    /// Nothing comes any more.
    Over,
    /// It cannot be read, or sent nothing when it last fired.
    Troubled,
}

impl State {
    pub const ALL: [Self; 4] = [Self::Waiting, Self::Paused, Self::Over, Self::Troubled];

    pub fn of(status: &ScheduleStatus) -> Self {
        match status {
            status if status.trouble().is_some() => Self::Troubled,
            ScheduleStatus { is_paused: true, .. } => Self::Paused,
            ScheduleStatus { next: None, .. } => Self::Over,
            _ => Self::Waiting,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Over => "over",
            Self::Troubled => "problem",
        }
    }
}

/// The same in words, with the problem if there is one.
pub fn in_words(status: &ScheduleStatus) -> String {
    match status.trouble() {
        Some(problem) => format!("problem: {}", text::excerpt(problem, 60)),
        None => State::of(status).as_str().into(),
    }
}

/// How long ago the first one was due that was not fired.
pub fn overdue<'a>(schedules: impl IntoIterator<Item = &'a ScheduleStatus>, now: Timestamp) -> Option<Duration> {
    let first = schedules.into_iter().filter_map(|status| status.next).map(|next| next.due_at).min();
    first.filter(|due_at| *due_at < now).map(|due_at| now.since(due_at))
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
        "next_at": status.next.map(|next| text::rfc3339(next.nominal_at)),
        "due_at": status.next.map(|next| text::rfc3339(next.due_at)),
        "last_at": status.last.map(|last| text::rfc3339(last.nominal_at)),
        "last_fired_at": status.last.map(|last| text::rfc3339(last.fired_at)),
        "last_message_id": status.last.map(|last| last.message.get()),
        "missed": status.missed,
        "problem": status.trouble(),
    })
}
