//! `fencepost consumer show`: a consumer, its slots, and what was taken from its workers by force.

use fencepost::{ConsumerPath, Forced, Result, SlotIndex};
use serde_json::{Value, json};

use crate::cli::ConsumerPathArgs;
use crate::commands::{forced, slot};
use crate::open;
use crate::printer::Printer;
use crate::table::{Table, facts};
use crate::text;

/// Runs the command.
pub async fn run(url: &str, args: &ConsumerPathArgs, printer: &Printer) -> Result<()> {
    let path = ConsumerPath::new(&args.queue, &args.name)?;
    open::existing(url, async |store| {
        let status = super::find(store, &path).await?;
        let slots = slot::of_consumer(store, &path).await?;
        let history = store.slot_history(&path).await?;
        let now = store.now().await?;
        let human = || {
            let mut screen = facts(&[
                ("queue", path.queue.to_string()),
                ("consumer", path.consumer.to_string()),
                ("lag", text::counted(status.lag, "message")),
                ("retrying", text::counted(status.retrying, "message")),
                ("parked", text::counted(status.parked, "message")),
                ("dead", text::counted(status.dead, "message")),
                ("workers", status.workers.to_string()),
                ("on failure", super::policy_in_words(&status.policy)),
            ]);
            for table in [slot::table(&slots, now), history_table(&history)].iter().filter(|table| !table.is_empty()) {
                screen += &format!("\n{}", table.render());
            }
            screen
        };
        printer.answer(human, || {
            let mut answer = super::json(&status);
            answer["slot_status"] = slots.iter().map(|status| slot::json(status, now)).collect();
            answer["history"] = history.iter().map(history_json).collect();
            answer
        })
    })
    .await
}

fn history_table(history: &[(SlotIndex, Forced)]) -> Table {
    let mut table = Table::new(["slot", "forced", "epoch", "from", "reason"]);
    for (slot, taken) in history {
        let [at, epoch, from, reason] = forced::cells(taken);
        table.row([slot.get().into(), at, epoch, from, reason]);
    }
    table
}

fn history_json((slot, taken): &(SlotIndex, Forced)) -> Value {
    let mut entry = json!({"slot": slot.get()});
    if let (Value::Object(entry), Value::Object(taken)) = (&mut entry, forced::json(taken)) {
        entry.extend(taken);
    }
    entry
}
