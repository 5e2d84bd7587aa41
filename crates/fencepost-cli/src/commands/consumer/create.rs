//! `fencepost consumer create`: makes a consumer of a queue that is there. Doing it again changes nothing.

use fencepost::{ConsumerPath, CreateConsumer, Created, Result, SlotCount};
use serde_json::json;

use crate::cli::ConsumerCreateArgs;
use crate::open;
use crate::printer::Printer;
use crate::text;

/// Runs the command.
pub async fn run(url: &str, args: &ConsumerCreateArgs, printer: &Printer) -> Result<()> {
    let path = ConsumerPath::new(&args.queue, &args.name)?;
    let slots = SlotCount::new(args.slots)?;
    let request = CreateConsumer::ordered(path.clone(), slots).start(args.start.start());
    open::existing(url, async |store| {
        let created = store.create_consumer(&request).await? == Created::Created;
        let human = || {
            let size = text::counted(slots.get().into(), "slot");
            if created {
                format!("created consumer `{path}` with {size}")
            } else {
                format!("consumer `{path}` is already there, with {size}")
            }
        };
        printer.answer(human, || {
            json!({
                "queue": path.queue.as_str(),
                "consumer": path.consumer.as_str(),
                "slots": slots.get(),
                "start": args.start.as_str(),
                "created": created,
            })
        })
    })
    .await
}
