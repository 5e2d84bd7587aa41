//! `fencepost queue drop`: drops a queue, with its messages and consumers when forced.

use fencepost::{Dropped, Error, Kind, QueueName, Result};
use serde_json::json;

use crate::cli::QueueDropArgs;
use crate::open;
use crate::printer::Printer;

/// Runs the command.
pub async fn run(url: &str, args: &QueueDropArgs, printer: &Printer) -> Result<()> {
    let queue = QueueName::new(&args.name)?;
    open::existing(url, async |store| match store.drop_queue(&queue, args.force).await.map_err(advise)? {
        Dropped::Dropped => {
            printer.answer(|| format!("dropped queue `{queue}`"), || json!({"queue": queue.as_str(), "dropped": true}))
        }
        Dropped::Absent => Err(super::absent(&queue).during("drop_queue")),
    })
    .await
}

fn advise(error: Error) -> Error {
    match error.kind() {
        Kind::Conflict => error
            .hinted("drop its consumers and let its messages go first, or use `--force`: they are then gone with it"),
        _ => error,
    }
}
