//! Sends every record of a file in batches of bounded size. A regular file is read twice: the first time to its end, so that
//! nothing is sent of a file that is not right.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use fencepost::{Error, MessageId, NewMessage, QueueName, Result, Retry, Store};
use indicatif::ProgressBar;
use serde_json::json;

use super::template::Template;
use crate::cli::SendArgs;
use crate::open;
use crate::printer::Printer;
use crate::records::{Format, Record, Source};
use crate::text;

/// The most messages that one call sends.
const MESSAGES: usize = 1_000;

/// A batch with so many bytes of payload is sent at once; it may be larger by one payload.
const BYTES: usize = 1 << 20;

/// Where the records go, and what is made of them.
pub struct Target {
    pub queue: QueueName,
    pub template: Template,
}

/// Runs the command for a file.
pub async fn run(url: &str, path: &OsStr, args: &SendArgs, target: Target, printer: &Printer) -> Result<()> {
    let source = Source::open(path)?;
    let (format, key_field) = (args.format.unwrap_or(source.format()), args.key_field.as_deref());
    open::existing(url, async |store| {
        // A queue that is not there is said before a large file is read.
        store.consumer_status(Some(&target.queue)).await?;
        if let Some(size) = source.size() {
            check(&source, format, key_field, &printer.progress("checking", Some(size)))?;
        }
        let bar = printer.progress("sending", source.size());
        let mut sender = Sender::new(store, &target);
        let outcome = sender.send_all(&source, format, key_field, &bar).await;
        bar.finish_and_clear();
        outcome.map_err(|error| sender.stopped(error))?;
        sender.report(printer)
    })
    .await
}

fn check(source: &Source, format: Format, key_field: Option<&str>, bar: &ProgressBar) -> Result<()> {
    let outcome = source.records(format, key_field, bar)?.try_for_each(|record| record.map(drop));
    bar.finish_and_clear();
    outcome
}

/// Sends batches and keeps count.
struct Sender<'a> {
    store: &'a Store,
    target: &'a Target,
    batch: Vec<NewMessage>,
    bytes: usize,
    started: Instant,
    sent: u64,
    keyed: u64,
    empty: u64,
    first: Option<MessageId>,
    last: Option<MessageId>,
}

impl<'a> Sender<'a> {
    fn new(store: &'a Store, target: &'a Target) -> Self {
        let started = Instant::now();
        Self {
            store,
            target,
            batch: Vec::new(),
            bytes: 0,
            started,
            sent: 0,
            keyed: 0,
            empty: 0,
            first: None,
            last: None,
        }
    }

    async fn send_all(
        &mut self,
        source: &Source,
        format: Format,
        key_field: Option<&str>,
        bar: &ProgressBar,
    ) -> Result<()> {
        let mut records = source.records(format, key_field, bar)?;
        let flows_by = source.size().is_none();
        while let Some(record) = records.next() {
            self.push(record?)?;
            // What has arrived is sent before waiting for more, so that a slow writer's messages are not held back.
            if self.batch.len() == MESSAGES || self.bytes >= BYTES || (flows_by && records.may_wait()) {
                self.flush().await?;
            }
        }
        self.empty = records.empty();
        self.flush().await
    }

    fn push(&mut self, record: Record) -> Result<()> {
        self.bytes += record.text.len();
        self.batch.push(self.target.template.message(record.text, record.key)?);
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        let keyed = batch.iter().filter(|message| message.get_key().is_some()).count();
        let ids = self.store.send_batch(&self.target.queue, batch).await?;
        self.bytes = 0;
        self.sent += ids.len() as u64;
        self.keyed += keyed as u64;
        self.first = self.first.or(ids.first().copied());
        self.last = ids.last().copied().or(self.last);
        Ok(())
    }

    /// An error that came after messages were sent says how many: trying again would send them twice.
    fn stopped(&self, cause: Error) -> Error {
        if self.sent == 0 {
            return cause;
        }
        let sent = text::counted(self.sent, "message");
        let error = Error::new(cause.kind(), format!("stopped after {sent} of the input were sent"))
            .coded(cause.code())
            .retried(Retry::Never)
            .during(cause.operation().unwrap_or("send_batch"))
            .with("sent", self.sent);
        let error = cause.context().fold(error, |error, (name, value)| error.with(name, value));
        let hint = cause.hint().unwrap_or("send only the rest of the input").to_owned();
        error.hinted(hint).caused_by(cause)
    }

    fn report(&self, printer: &Printer) -> Result<()> {
        let took = self.started.elapsed();
        let rate = self.sent as f64 / took.max(Duration::from_micros(1)).as_secs_f64();
        let human = || {
            let Self { sent, keyed, empty, .. } = *self;
            let mut summary = format!(
                "sent {} to `{}` in {:.2} s ({}/s)\n",
                text::counted(sent, "message"),
                self.target.queue,
                took.as_secs_f64(),
                text::count(rate as u64),
            );
            summary += &format!("  {} with a key, {} without\n", text::count(keyed), text::count(sent - keyed));
            if let (Some(first), Some(last)) = (self.first, self.last) {
                summary += &format!("  ids {first} to {last}\n");
            }
            if empty > 0 {
                summary += &format!("  {} skipped\n", text::counted(empty, "empty line"));
            }
            summary
        };
        printer.answer(human, || {
            json!({
                "queue": self.target.queue.as_str(),
                "sent": self.sent,
                "with_key": self.keyed,
                "without_key": self.sent - self.keyed,
                "empty_lines": self.empty,
                "first_id": self.first.map(MessageId::get),
                "last_id": self.last.map(MessageId::get),
                "seconds": (took.as_secs_f64() * 1e6).round() / 1e6,
                "messages_per_second": rate.round(),
            })
        })
    }
}
