//! `fencepost slot release`: an operator takes a slot from whoever owns it.

use fencepost::{ConsumerPath, Reason, Result, SlotIndex};
use serde_json::json;

use crate::cli::SlotReleaseArgs;
use crate::open;
use crate::printer::Printer;

/// Runs the command.
pub async fn run(url: &str, args: &SlotReleaseArgs, printer: &Printer) -> Result<()> {
    let path = ConsumerPath::new(&args.queue, &args.consumer)?;
    let (slot, reason) = (SlotIndex::new(args.slot)?, Reason::new(&args.reason)?);
    open::existing(url, async |store| {
        let epoch = store.force_release_slot(&path, slot, &reason).await?;
        // Who it was taken from was judged with the transition, and stands in the history.
        let history = store.slot_history(&path).await?;
        let from = history.into_iter().find(|(_, forced)| forced.epoch == epoch).and_then(|(_, forced)| forced.from);
        let human = || {
            let whose = from.as_ref().map_or_else(|| ", which nobody owned".into(), |from| format!(" from `{from}`"));
            format!("took slot {slot} of `{path}`{whose}; its epoch is now {epoch}")
        };
        printer.answer(human, || {
            json!({
                "queue": path.queue.as_str(),
                "consumer": path.consumer.as_str(),
                "slot": slot.get(),
                "epoch": epoch.get(),
                "from": from,
                "reason": reason.as_str(),
            })
        })
    })
    .await
}
