//! `fencepost slot list`: who owns which slot.

use fencepost::{ConsumerPath, QueueName, Result};
use serde_json::json;

use crate::cli::SlotListArgs;
use crate::commands::consumer;
use crate::open;
use crate::printer::Printer;

/// Runs the command.
pub async fn run(url: &str, args: &SlotListArgs, printer: &Printer) -> Result<()> {
    let queue = args.queue.as_deref().map(QueueName::new).transpose()?;
    let path = match (&args.queue, &args.consumer) {
        (Some(queue), Some(consumer)) => Some(ConsumerPath::new(queue, consumer)?),
        _ => None,
    };
    open::existing(url, async |store| {
        let slots = match &path {
            Some(path) => {
                consumer::find(store, path).await?;
                super::of_consumer(store, path).await?
            }
            None => store.slot_status(queue.as_ref()).await?,
        };
        let now = store.now().await?;
        let human = || match &*slots {
            [] => "no slots yet; `fencepost consumer create QUEUE NAME` makes a consumer with slots".into(),
            slots => super::table(slots, now).render(),
        };
        printer
            .answer(human, || json!({"slots": slots.iter().map(|status| super::json(status, now)).collect::<Vec<_>>()}))
    })
    .await
}
