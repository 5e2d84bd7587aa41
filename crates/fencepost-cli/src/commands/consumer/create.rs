//! `fencepost consumer create`: makes a consumer of a queue that is there. Doing it again changes nothing.

use fencepost::{ConsumerPath, CreateConsumer, Created, FailurePolicy, Result, SlotCount, Start};
use serde_json::json;

use crate::cli::ConsumerCreateArgs;
use crate::open;
use crate::printer::Printer;
use crate::text;

/// Runs the command.
pub async fn run(url: &str, args: &ConsumerCreateArgs, printer: &Printer) -> Result<()> {
    let path = ConsumerPath::new(&args.queue, &args.name)?;
    let slots = SlotCount::new(args.slots)?;
    let start: Start = args.start.parse()?;
    let request = CreateConsumer::ordered(path.clone(), slots).start(start).policy(policy(args)?);
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
                "start": args.start,
                "created": created,
            })
        })
    })
    .await
}

fn policy(args: &ConsumerCreateArgs) -> Result<FailurePolicy> {
    const BACKOFF: &str = "allowed are 1ms to 24h, a number and a unit each: `500ms`, `30s`, `1h 30m`";
    let policy = FailurePolicy::default()
        .on_failure(args.on_failure.parse()?)
        .max_attempts(args.max_attempts)?
        .max_crashes(args.max_crashes)?;
    text::parse_within(&args.backoff, "backoff", "a backoff", BACKOFF, |backoff| policy.backoff(backoff))
}
