//! `fencepost consumer list`: how the consumers of a queue, or of all, stand.

use fencepost::{QueueName, Result};
use serde_json::json;

use crate::cli::ConsumerListArgs;
use crate::open;
use crate::printer::Printer;

/// Runs the command.
pub async fn run(url: &str, args: &ConsumerListArgs, printer: &Printer) -> Result<()> {
    let queue = args.queue.as_deref().map(QueueName::new).transpose()?;
    open::existing(url, async |store| {
        let consumers = store.consumer_status(queue.as_ref()).await?;
        let human = || match &*consumers {
            [] => "no consumers yet; `fencepost consumer create QUEUE NAME` makes one".into(),
            consumers => super::table(consumers).render(),
        };
        printer.answer(human, || json!({"consumers": consumers.iter().map(super::json).collect::<Vec<_>>()}))
    })
    .await
}
