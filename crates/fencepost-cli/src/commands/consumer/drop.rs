//! `fencepost consumer drop`: drops a consumer, also under its workers when forced.

use fencepost::{ConsumerPath, Dropped, Error, Kind, Result};
use serde_json::json;

use crate::cli::ConsumerDropArgs;
use crate::open;
use crate::printer::Printer;

/// Runs the command.
pub async fn run(url: &str, args: &ConsumerDropArgs, printer: &Printer) -> Result<()> {
    let path = ConsumerPath::new(&args.queue, &args.name)?;
    open::existing(url, async |store| match store.drop_consumer(&path, args.force).await.map_err(advise)? {
        Dropped::Dropped => printer.answer(
            || format!("dropped consumer `{path}`"),
            || json!({"queue": path.queue.as_str(), "consumer": path.consumer.as_str(), "dropped": true}),
        ),
        Dropped::Absent => {
            // A queue that is not there is what people want to hear of first.
            store.consumer_status(Some(&path.queue)).await?;
            Err(super::absent(&path).during("drop_consumer"))
        }
    })
    .await
}

fn advise(error: Error) -> Error {
    match error.kind() {
        Kind::OpenBatch | Kind::Conflict => {
            error.hinted("let its workers finish and stop, or use `--force`: what they still do for it is then refused")
        }
        _ => error,
    }
}
