//! `fencepost queue list`: what every queue holds.

use fencepost::Result;
use serde_json::json;

use crate::open;
use crate::printer::Printer;

/// Runs the command.
pub async fn run(url: &str, printer: &Printer) -> Result<()> {
    open::existing(url, async |store| {
        let (queues, now) = (store.queue_status().await?, store.now().await?);
        let human = || match &*queues {
            [] => "no queues yet; `fencepost queue create NAME` makes one".into(),
            queues => super::table(queues, now).render(),
        };
        printer.answer(human, || json!({"queues": queues.iter().map(super::json).collect::<Vec<_>>()}))
    })
    .await
}
