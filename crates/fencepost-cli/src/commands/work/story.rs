//! What is told of the work: a line for what goes wrong while it runs, and the figures at its end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fencepost::runtime::{Event, LossCause, Observer, Report};
use fencepost::{ConsumerPath, Error, FailurePolicy, Message, Result, SlotIndex};
use serde_json::{Value, json};

use crate::printer::Printer;
use crate::text;

/// The most characters of a reason that a line shows.
const SHOWN: usize = 100;

/// How long a trouble that goes on is not told again.
const SAME: Duration = Duration::from_secs(10);

/// What became of a message that is not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It failed.
    Failed,
    /// It was given up at once.
    Rejected,
    /// It comes again, and no attempt is spent.
    PutOff,
}

/// Tells it, and counts.
#[derive(Debug)]
pub struct Story {
    printer: Printer,
    path: ConsumerPath,
    policy: FailurePolicy,
    begun: Instant,
    failed: AtomicU64,
    dead: AtomicU64,
    snoozed: AtomicU64,
    /// The troubles that were told of late, and when.
    told: Mutex<HashMap<String, Instant>>,
}

impl Story {
    /// Begins.
    pub fn new(printer: Printer, path: ConsumerPath, policy: FailurePolicy) -> Self {
        let (failed, dead, snoozed, told) = Default::default();
        Self { printer, path, policy, begun: Instant::now(), failed, dead, snoozed, told }
    }

    /// Where it is told.
    pub fn printer(&self) -> Printer {
        self.printer
    }

    /// The pause of a message that is put off.
    pub fn backoff(&self) -> Duration {
        self.policy.get_backoff()
    }

    /// A message is not done.
    pub fn message(&self, message: &Message, fate: Fate, reason: &str) {
        let is_last = message.attempt >= self.policy.get_max_attempts();
        let (counts, outcome, words) = match fate {
            Fate::PutOff => ([Some(&self.snoozed), None], "snoozed", "put off"),
            Fate::Failed if !is_last => ([Some(&self.failed), None], "retry", "failed, comes again"),
            Fate::Failed => {
                ([Some(&self.failed), Some(&self.dead)], "dead", "failed for the last time, is a dead letter")
            }
            Fate::Rejected => ([Some(&self.failed), Some(&self.dead)], "dead", "given up, is a dead letter"),
        };
        for count in counts.into_iter().flatten() {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let human = || {
            let key =
                message.key.as_ref().map(|key| format!(", key `{}`", text::shown(key.as_str()))).unwrap_or_default();
            let last = reason.trim_end().lines().last().unwrap_or_default();
            format!("message {}{key}, attempt {}: {words}: {}", message.id, message.attempt, text::excerpt(last, SHOWN))
        };
        self.printer.event(human, || {
            json!({
                "event": "message",
                "id": message.id.get(),
                "key": message.key.as_ref().map(|key| key.as_str()),
                "attempt": message.attempt,
                "outcome": outcome,
                "reason": reason,
            })
        });
    }

    /// A line of a command's output cannot be read.
    pub fn broken_result(&self, why: &str) {
        self.tell("broken_result", why, json!({}));
    }

    /// Something failed that is tried again. What goes on is told from time to time.
    pub fn trouble(&self, error: &Error) {
        if self.is_new(&error.to_string(), Instant::now()) {
            self.tell("trouble", &format!("{error}; trying again"), json!({"code": error.code()}));
        }
    }

    /// Whether a trouble was not told a moment ago. One that was keeps its time, so that it is told again if it goes on.
    fn is_new(&self, trouble: &str, now: Instant) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|_, at| now.duration_since(*at) < SAME);
        !told.contains_key(trouble) && told.insert(trouble.to_owned(), now).is_none()
    }

    fn slot_lost(&self, slot: SlotIndex, why: &str) {
        self.tell("lost", &format!("lost slot {slot} of `{}`: {why}", self.path), json!({"slot": slot.get()}));
    }

    fn tell(&self, event: &str, words: &str, facts: Value) {
        let line = || {
            let mut line = json!({"event": event, "message": words});
            if let (Value::Object(line), Value::Object(facts)) = (&mut line, facts) {
                line.extend(facts);
            }
            line
        };
        self.printer.event(|| text::shown(words), line);
    }

    /// Tells the figures.
    pub fn end(&self, report: &Report) -> Result<()> {
        let took = self.begun.elapsed();
        let [failed, dead, snoozed] =
            [&self.failed, &self.dead, &self.snoozed].map(|count| count.load(Ordering::Relaxed));
        let Report { messages: acked, lost, .. } = *report;
        let mut summary = format!("{}: {} acked", self.path, text::counted(acked, "message"));
        for (count, what) in [(failed, "failed"), (dead, "of them for good"), (snoozed, "put off")] {
            if count > 0 {
                summary += &format!(", {} {what}", text::count(count));
            }
        }
        if lost > 0 {
            summary += &format!(", {} lost", text::counted(lost, "slot"));
        }
        self.printer.note(&format!("{summary} in {:.2} s", took.as_secs_f64()));
        self.printer.record(|| {
            json!({
                "acked": acked,
                "failed": failed,
                "dead": dead,
                "snoozed": snoozed,
                "lost": lost,
                "seconds": (took.as_secs_f64() * 1e6).round() / 1e6,
            })
        })
    }
}

/// Tells what the worker tells of itself.
pub struct Teller(pub Arc<Story>);

impl Observer for Teller {
    fn observe(&self, event: &Event<'_>) {
        let Teller(story) = self;
        match event {
            Event::Lost { slot, cause, .. } => {
                let why = match cause {
                    LossCause::Renewal => "somebody else was granted it".to_owned(),
                    LossCause::Refused(error) => error.to_string(),
                };
                story.slot_lost(*slot, &why);
            }
            Event::DeadlinePassed { slot, .. } => story.slot_lost(*slot, "it could not be renewed in time"),
            Event::CallFailed { error } => story.trouble(error),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_that_goes_on_is_told_from_time_to_time_and_another_at_once() {
        let path = ConsumerPath::new("q", "c").unwrap();
        let story = Story::new(Printer::new(false), path, FailurePolicy::default());
        let begun = Instant::now();
        let told = [("a", 0), ("a", 1), ("b", 1), ("a", 9), ("b", 9), ("a", 10), ("b", 10), ("b", 11)]
            .map(|(trouble, seconds)| story.is_new(trouble, begun + Duration::from_secs(seconds)));
        assert_eq!(told, [true, false, true, false, false, true, false, true]);
    }
}
