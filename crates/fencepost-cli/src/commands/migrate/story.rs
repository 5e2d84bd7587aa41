//! What people and programs see while migrations are run: a line for each file, a bar for the statements, and whatever is in the way.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost::migrate::Event;
use indicatif::ProgressBar;
use serde_json::json;

use super::title;
use crate::printer::Printer;
use crate::text;

/// Tells what happens.
pub struct Story<'p> {
    printer: &'p Printer,
    /// What is done to a file: `applied`, `undone`.
    verb: &'static str,
    bar: ProgressBar,
    names: BTreeMap<u64, String>,
}

impl<'p> Story<'p> {
    pub fn new(printer: &'p Printer, verb: &'static str) -> Self {
        Self { printer, verb, bar: ProgressBar::hidden(), names: BTreeMap::new() }
    }

    /// Hears an event.
    pub fn tell(&mut self, event: Event) {
        match event {
            Event::Waiting { holder } => {
                let line = format!("another runner is waited for: {}", text::shown(&holder));
                self.line(&line, json!({"event": "waiting", "holder": holder}));
            }
            Event::Planned { statements, .. } => self.bar = self.printer.steps(statements as u64),
            Event::FileStarted { number, name, statements, done } => {
                self.names.insert(number, name);
                if done > 0 {
                    let title = self.title(number);
                    let line = format!("{title} goes on at statement {} of {statements}", done + 1);
                    self.line(&line, json!({"event": "resumed", "number": number, "statement": done + 1}));
                }
            }
            Event::StatementStarted { number, statement, words } => {
                self.bar.set_message(format!("{} statement {statement}: {}", self.title(number), text::shown(&words)));
            }
            Event::StatementDone { .. } => self.bar.inc(1),
            Event::Blocked { number, statement, by } => {
                let by: Vec<_> = by.iter().map(ToString::to_string).collect();
                let line =
                    format!("{} statement {statement} waits for {}", self.title(number), text::shown(&by.join("; ")));
                self.line(&line, json!({"event": "blocked", "number": number, "statement": statement, "by": by}));
            }
            Event::Retried { number, statement, attempt, pause, by } => {
                let by: Vec<_> = by.iter().map(ToString::to_string).collect();
                let line = format!(
                    "{} statement {statement} did not get its locks in time ({}); attempt {attempt} is undone and made again in {}",
                    self.title(number),
                    if by.is_empty() { "who has them is gone".into() } else { text::shown(&by.join("; ")) },
                    text::duration(pause)
                );
                let json = json!({"event": "retried", "number": number, "statement": statement, "attempt": attempt,
                    "pause_ms": millis(pause), "by": by});
                self.line(&line, json);
            }
            Event::IndexRebuilt { number, statement, index } => {
                let line = format!(
                    "{} statement {statement}: the index `{}`, which a failed build had left invalid, is built anew",
                    self.title(number),
                    text::shown(&index)
                );
                self.line(
                    &line,
                    json!({"event": "index_rebuilt", "number": number, "statement": statement, "index": index}),
                );
            }
            Event::AlreadyDone { number, statement } => {
                let line = format!("{} statement {statement} was done already", self.title(number));
                self.line(&line, json!({"event": "already_done", "number": number, "statement": statement}));
            }
            Event::Notice { severity, message } => {
                let line = format!("{}: {}", severity.to_lowercase(), text::shown(&message));
                self.line(&line, json!({"event": "notice", "severity": severity, "message": message}));
            }
            Event::FileDone { number, took } => {
                let line = format!("{} {} in {}", self.verb, self.title(number), text::duration(took));
                self.line(&line, json!({"event": self.verb, "number": number, "took_ms": millis(took)}));
            }
            _ => {}
        }
    }

    /// The bar goes.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn line(&self, human: &str, json: serde_json::Value) {
        self.bar.suspend(|| self.printer.event(|| human.to_owned(), || json));
    }

    fn title(&self, number: u64) -> String {
        title(number, self.names.get(&number).map_or("", String::as_str))
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
