//! `fencepost queue create`: makes a queue, and the store when there is none. Doing it again changes nothing.

use fencepost::{Created, Partitions, QueueName, Result};
use serde_json::json;

use crate::cli::QueueCreateArgs;
use crate::open::{self, Opened};
use crate::printer::Printer;
use crate::text;

/// Runs the command.
pub async fn run(url: &str, args: &QueueCreateArgs, printer: &Printer) -> Result<()> {
    // ORDER: what is wrong with the arguments is said before a store is made.
    let queue = QueueName::new(&args.name)?;
    let partitions = Partitions::new(args.partitions)?;
    open::creating(url, async |store, opened| {
        if opened != Opened::Current {
            printer.note(&format!("{} the store `{}`", opened.as_str(), store.info().location));
        }
        let created = store.create_queue(&queue, partitions).await? == Created::Created;
        let human = || {
            let size = text::counted(partitions.get().into(), "partition");
            if created { format!("created queue `{queue}` with {size}") } else { format!("queue `{queue}` is already there, with {size}") }
        };
        printer.answer(human, || {
            json!({"queue": queue.as_str(), "partitions": partitions.get(), "created": created, "store": opened.as_str()})
        })
    })
    .await
}
