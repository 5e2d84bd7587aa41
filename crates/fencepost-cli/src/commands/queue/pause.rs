//! `fencepost queue pause` and `fencepost queue resume`: whether a queue hands out what is new.

use fencepost::{QueueName, Result};
use serde_json::json;

use crate::cli::QueueNameArgs;
use crate::open;
use crate::printer::Printer;

/// Pauses a queue. Doing it again changes nothing.
pub async fn run(url: &str, args: &QueueNameArgs, printer: &Printer) -> Result<()> {
    let queue = QueueName::new(&args.name)?;
    open::existing(url, async |store| {
        let changed = store.pause_queue(&queue).await?;
        let human = || match changed {
            true => format!("paused queue `{queue}`: nothing new is handed out from it"),
            false => format!("queue `{queue}` is already paused"),
        };
        printer.answer(human, || json!({"queue": queue.as_str(), "paused": true, "changed": changed}))
    })
    .await
}

/// Lets a queue go on. Doing it again changes nothing.
pub async fn resume(url: &str, args: &QueueNameArgs, printer: &Printer) -> Result<()> {
    let queue = QueueName::new(&args.name)?;
    open::existing(url, async |store| {
        let changed = store.resume_queue(&queue).await?;
        let human = || match changed {
            true => format!("resumed queue `{queue}`"),
            false => format!("queue `{queue}` is not paused"),
        };
        printer.answer(human, || json!({"queue": queue.as_str(), "paused": false, "changed": changed}))
    })
    .await
}
