//! What is told of the work: a line for what goes wrong while it runs, and the figures at its end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    /// The troubles that were told since something succeeded, and when.
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
            let key = message.key.as_ref().map_or_else(String::new, |key| format!(", key `{key}`"));
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
        let is_told = {
            let mut told = self.told();
            told.retain(|_, at| at.elapsed() < SAME);
            // One that was told keeps its time, so that it is told again.
            told.contains_key(&error.to_string()) || told.insert(error.to_string(), Instant::now()).is_some()
        };
        if is_told {
            return;
        }
        self.tell("trouble", &format!("{error}; trying again"), json!({"code": error.code()}));
    }

    /// Something succeeded: a trouble from now on is a new one.
    fn success(&self) {
        self.told().clear();
    }

    fn told(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.printer.event(|| words.chars().flat_map(text::visible).collect(), line);
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
            Event::Claimed { .. } | Event::Received { .. } | Event::Acked { .. } => story.success(),
            _ => {}
        }
    }
}
