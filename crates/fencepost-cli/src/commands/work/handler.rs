//! What is made of a run of the command, for a message or for a batch.

use std::sync::Arc;
use std::time::Duration;

use fencepost::runtime::{BatchHandler, CancellationToken, Done, HandlerError, Instead, MessageHandler, SlotContext};
use fencepost::{Batch, Delay, Message, Result};
use tokio::sync::Semaphore;

use super::command::{self, Listener, Outcome, Task};
use super::plan::Plan;
use super::results::{Line, Results, Verdict};
use super::story::{Fate, Story};
use crate::commands::message;
use crate::printer::Printer;

/// What a handler answers when its command was ended with its slot or its worker: nothing is recorded then.
const ENDED: &str = "the command was ended with its slot or its worker";

/// What all runs have in common.
#[derive(Debug)]
pub struct Job {
    command: String,
    patience: Duration,
    stop: CancellationToken,
    story: Arc<Story>,
}

impl Job {
    /// For a plan, told by a story, until the worker is told to end.
    pub fn new(plan: &Plan, stop: CancellationToken, story: Arc<Story>) -> Self {
        Self { command: plan.command.clone(), patience: plan.patience(), stop, story }
    }

    /// Runs the command. Nothing is returned when it was ended with its slot or its worker.
    async fn run<L: Listener>(
        &self,
        slot: &SlotContext,
        message: Option<&Message>,
        input: Vec<u8>,
        listener: &mut L,
    ) -> Result<Option<Outcome>> {
        let is_quiet = self.story.printer().is_json();
        let task = Task { slot, message, input, patience: self.patience, stop: &self.stop, is_quiet };
        match command::run(&self.command, task, listener).await {
            Err(error) => {
                // The system is at fault, and not the message.
                self.story.trouble(&error);
                Ok(Some(Outcome::NotYet))
            }
            ended => ended,
        }
    }

    /// What the worker is told of a message, and whoever watches. Nothing of one that is done.
    fn fate(&self, message: &Message, verdict: Outcome) -> Option<HandlerError> {
        match verdict {
            Outcome::Done => None,
            Outcome::NotYet => {
                self.story.message(message, Fate::PutOff, "the command asks for a later time");
                let delay = Delay::new(self.story.backoff()).unwrap_or_default();
                Some(Instead::Snooze(delay).into())
            }
            Outcome::Failed(reason) => {
                self.story.message(message, Fate::Failed, &reason);
                Some(reason.into())
            }
        }
    }

    fn given_up(&self, message: &Message, reason: String) -> HandlerError {
        self.story.message(message, Fate::Rejected, &reason);
        Instead::Dead(reason).into()
    }
}

/// Runs the command for every message.
#[derive(Debug)]
pub struct EachMessage {
    job: Job,
    /// How many may run at once, over all slots.
    at_once: u32,
    turns: Semaphore,
}

impl EachMessage {
    /// Runs at most so many commands at once.
    pub fn new(job: Job, at_once: usize) -> Self {
        Self { job, at_once: at_once as u32, turns: Semaphore::new(at_once) }
    }

    /// Runs the command when it is its turn. Nothing is returned when it was ended, or not begun, with its slot or its worker.
    async fn run(&self, message: &Message, slot: &SlotContext) -> Result<Option<Outcome>> {
        let _turn = tokio::select! {
            turn = self.turns.acquire() => turn,
            () = slot.cancelled.cancelled() => return Ok(None),
        };
        let mut passing = Passing(self.job.story.printer());
        self.job.run(slot, Some(message), message.payload.clone(), &mut passing).await
    }
}

#[fencepost::runtime::async_trait]
impl MessageHandler for EachMessage {
    async fn handle(&self, message: &Message, slot: &SlotContext) -> Result<(), HandlerError> {
        if let Some(outcome) = self.run(message, slot).await? {
            return self.job.fate(message, outcome).map_or(Ok(()), Err);
        }
        // Only of a slot that is over nothing is recorded. The commands that still end by themselves are waited for before.
        tokio::select! {
            _ = self.turns.acquire_many(self.at_once) => slot.cancelled.cancel(),
            () = slot.cancelled.cancelled() => {}
        }
        Err(ENDED.into())
    }
}

/// Runs the command for every batch.
#[derive(Debug)]
pub struct WholeBatch(pub Job);

#[fencepost::runtime::async_trait]
impl BatchHandler for WholeBatch {
    async fn handle(&self, batch: &Batch, slot: &SlotContext) -> Result<Done, HandlerError> {
        let WholeBatch(job) = self;
        let input: String =
            batch.messages.iter().map(|message| format!("{}\n", message::json(message, Some(batch.id)))).collect();
        let mut hearing = Hearing { results: Results::new(batch), broken: None, story: job.story.clone() };
        let outcome = job.run(slot, None, input.into_bytes(), &mut hearing).await?;
        let Some(outcome) = outcome else {
            slot.cancelled.cancel();
            return Err(ENDED.into());
        };
        let (results, broken) = hearing.finish();
        let rest = match (&outcome, broken) {
            (Outcome::Done, Some(why)) => Outcome::Failed(why),
            _ => outcome.clone(),
        };
        let mut withdrawn = Vec::new();
        for message in &batch.messages {
            if withdrawn.contains(&message.id) {
                continue;
            }
            let error = match results.of(message.id).cloned() {
                None => job.fate(message, rest.clone()),
                Some(Verdict::Ok) => None,
                Some(Verdict::Retry(reason)) => job.fate(message, Outcome::Failed(reason_or(reason, &outcome))),
                Some(Verdict::Dead(reason)) => Some(job.given_up(message, reason_or(reason, &outcome))),
            };
            if let Some(error) = error {
                withdrawn.extend(slot.record(message.id, &error).await?);
            }
        }
        Ok(Done::Ack)
    }
}

/// The reason of a result, or what the whole run failed by.
fn reason_or(reason: Option<String>, run: &Outcome) -> String {
    match (reason.filter(|reason| !reason.trim().is_empty()), run) {
        (Some(reason), _) => reason,
        (None, Outcome::Failed(why)) => why.clone(),
        (None, _) => "the command gave no reason".into(),
    }
}

/// Shows standard error.
struct Passing(Printer);

impl Listener for Passing {
    const HEARS_OUTPUT: bool = false;

    fn output(&mut self, _bytes: &[u8]) {}

    fn error(&self, bytes: &[u8]) {
        self.0.pass_on_error(bytes);
    }
}

/// Takes results from standard output, and shows the rest of it and standard error.
struct Hearing {
    results: Results,
    /// The first line that cannot be read.
    broken: Option<String>,
    story: Arc<Story>,
}

impl Hearing {
    fn finish(self) -> (Results, Option<String>) {
        let Hearing { mut results, mut broken, story } = self;
        results.finish(|line, came| hear(&story, &mut broken, line, came));
        (results, broken)
    }
}

fn hear(story: &Story, broken: &mut Option<String>, line: &[u8], came: Line) {
    match came {
        Line::Told => {}
        Line::Output => story.printer().pass_on(line),
        Line::Broken(why) => {
            story.broken_result(&why);
            broken.get_or_insert(why);
        }
    }
}

impl Listener for Hearing {
    const HEARS_OUTPUT: bool = true;

    fn output(&mut self, bytes: &[u8]) {
        let Hearing { results, broken, story } = self;
        results.take(bytes, |line, came| hear(story, broken, line, came));
    }

    fn error(&self, bytes: &[u8]) {
        self.story.printer().pass_on_error(bytes);
    }
}
