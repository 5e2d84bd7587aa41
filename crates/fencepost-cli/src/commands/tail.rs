//! `fencepost tail`: the messages of a queue as they stand in its log, read without a lease.

use std::time::Duration;

use fencepost::runtime::stop_on_signals;
use fencepost::{BatchSize, Error, Kind, QueueName, Result, Retry, Start, Store, Topic};
use serde_json::json;

use super::message;
use crate::cli::TailArgs;
use crate::open;
use crate::printer::{Printer, reader_is_gone};

/// How many messages are read and printed at once.
const PAGE: i64 = 500;

/// How long a wait for a wake-up takes at most. What becomes due, and what another process sends, is seen after this at the latest.
const POLL: Duration = Duration::from_millis(500);

/// Runs the command.
pub async fn run(url: &str, args: &TailArgs, printer: &Printer) -> Result<()> {
    let queue = QueueName::new(&args.queue)?;
    let from: Start = args.from.parse()?;
    let stop = stop_on_signals()
        .map_err(|cause| Error::new(Kind::Unavailable, "cannot listen for signals").caused_by(cause))?;
    open::existing(url, async |store| {
        tokio::select! {
            read = read(store, &queue, from, args.follow, printer) => read,
            () = stop.cancelled() => Ok(()),
        }
    })
    .await
}

async fn read(store: &Store, queue: &QueueName, mut from: Start, follow: bool, printer: &Printer) -> Result<()> {
    let max = BatchSize::new(PAGE)?;
    // Only the first page is read by the id: a message with a lower one that becomes due later is not shown either.
    let least = if let Start::AfterId(id) = from { id } else { 0 };
    // ORDER: registered before the first read, so that nothing that is sent meanwhile is slept over.
    let mut wakes = store.wakes(&Topic::Messages(queue.clone()));
    let mut is_first = true;
    loop {
        let mut page = match store.read(queue, from, max).await {
            Err(error) if error.kind() == Kind::PositionGone && follow && !is_first => {
                // It was too slow for the retention. Whoever follows wants what comes, and to know what does not.
                skipped(queue, printer);
                from = Start::Earliest;
                continue;
            }
            page => page?,
        };
        is_first = false;
        from = Start::After(page.next);
        // A page is empty at the end of the log, and nowhere else.
        let is_last = page.messages.is_empty();
        page.messages.retain(|read| read.id.get() > least);
        printer.lines(&page.messages, message::line, |read| message::json(read, None))?;
        if !is_last {
            continue;
        }
        if !follow || reader_is_gone() {
            return Ok(());
        }
        if let Ok(Err(_closed)) = tokio::time::timeout(POLL, wakes.woken()).await {
            return Ok(());
        }
        // A delayed message gets its place in the log once somebody appends what is due; there may be no worker.
        if let Err(error) = store.maintain(Some(queue)).await
            && error.retry() == Retry::Never
        {
            return Err(error);
        }
    }
}

fn skipped(queue: &QueueName, printer: &Printer) {
    let words =
        || format!("messages of the queue `{queue}` are gone that were not shown; going on with the first there is");
    printer.event(words, || json!({"event": "position_gone", "message": words()}));
}
