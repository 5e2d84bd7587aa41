//! Tells the story: for people a timeline, for programs one JSON object an event.

use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use fencepost::{Result, Store};
use serde_json::{Value, json};

use super::input::{Expected, Input};
use super::plan::Plan;
use crate::printer::Printer;
use crate::text::{count, counted};

const DIM: Style = Style::new().dimmed();
const NAME: Style = Style::new().bold();
/// Something went wrong on purpose.
pub const FAULT: Style = AnsiColor::Yellow.on_default();
/// Somebody went on with it.
pub const RESCUE: Style = AnsiColor::Cyan.on_default();
/// What fencing is for.
pub const REFUSED: Style = AnsiColor::Magenta.on_default().bold();
/// Nothing special.
pub const PLAIN: Style = Style::new();

/// Prints what happens, with the time since the beginning.
#[derive(Debug)]
pub struct Story {
    printer: Printer,
    started: Instant,
}

impl Story {
    /// Says what is going to be shown.
    ///
    /// # Errors
    /// When nobody reads it any more.
    pub fn begin(printer: Printer, input: &Input, expected: &Expected, plan: &Plan, store: &Store) -> Result<Self> {
        let keys = expected.rows.keys().flatten().count() as u64;
        let location = store.info().location;
        let human = || {
            let processes = if plan.workers == 1 { "1 process".into() } else { format!("{} processes", plan.workers) };
            format!(
                "{} of {}, {} in column `{}`.\n\
                 {processes} handle them; all they share is {location}.\n\n\
                 Records of one key are handled in order, by whoever owns the key's slot. An owner has\n\
                 an epoch, a number that only rises (shown by its last digits). What it writes commits\n\
                 together with its ack, in one transaction, in which the epoch is checked.\n\n",
                counted(expected.records, "record"),
                input.name(),
                counted(keys, "key"),
                input.key(),
            )
        };
        printer.answer(human, || {
            json!({
                "event": "begin", "input": input.name(), "key": input.key(), "records": expected.records, "keys": keys,
                "workers": plan.workers, "kill": plan.kill, "pause": plan.pause, "store": location,
            })
        })?;
        Ok(Self { printer, started: Instant::now() })
    }

    /// Time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Tells one event: for people `who` did `what`, for programs the object `facts`.
    ///
    /// # Errors
    /// When nobody reads it any more.
    pub fn tell(&self, who: &str, style: Style, what: &str, mut facts: Value) -> Result<()> {
        let seconds = self.elapsed().as_secs_f64();
        let human = || format!("{DIM}{seconds:6.2} s{DIM:#}  {NAME}{who:9}{NAME:#}  {style}{what}{style:#}");
        self.printer.answer(human, || {
            if let Value::Object(facts) = &mut facts {
                facts.insert("at".into(), json!((seconds * 1_000.0).round() / 1_000.0));
                facts.insert("who".into(), json!(who));
            }
            facts
        })
    }

    /// Where what is printed goes.
    pub const fn printer(&self) -> Printer {
        self.printer
    }
}

/// `12,208 messages`.
pub fn messages(number: u64) -> String {
    counted(number, "message")
}

/// `12,208`.
pub fn number(number: u64) -> String {
    count(number)
}

/// An epoch by its last digits: all epochs of a show begin alike. Programs get all of them.
pub fn short(epoch: i64) -> String {
    format!("…{:07}", epoch.rem_euclid(10_000_000))
}
