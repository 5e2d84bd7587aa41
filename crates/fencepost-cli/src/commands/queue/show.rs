//! `fencepost queue show`: a queue and its consumers.

use fencepost::{QueueName, Result};

use crate::cli::QueueNameArgs;
use crate::commands::consumer;
use crate::open;
use crate::printer::Printer;
use crate::table::facts;
use crate::text;

/// Runs the command.
pub async fn run(url: &str, args: &QueueNameArgs, printer: &Printer) -> Result<()> {
    let queue = QueueName::new(&args.name)?;
    open::existing(url, async |store| {
        let consumers = store.consumer_status(Some(&queue)).await?;
        let status = super::find(store, &queue).await?;
        let now = store.now().await?;
        let human = || {
            let oldest = status.oldest_at.map_or_else(|| "-".into(), |at| text::relative(at, now));
            let mut screen = facts(&[
                ("queue", queue.to_string()),
                ("partitions", status.partitions.get().to_string()),
                ("stored", text::counted(status.stored, "message")),
                ("delayed", text::counted(status.delayed, "message")),
                ("oldest", oldest),
                ("keeps", super::retain::in_words(&status.retention)),
                ("paused", if status.paused { "yes: nothing new is handed out" } else { "no" }.into()),
            ]);
            screen += &match &*consumers {
                [] => {
                    let name = text::shell_word(queue.as_str());
                    format!("\nno consumers yet; `fencepost consumer create {name} NAME` makes one\n")
                }
                consumers => format!("\n{}", consumer::table(consumers).render()),
            };
            screen
        };
        printer.answer(human, || {
            let mut answer = super::json(&status);
            answer["consumer_status"] = consumers.iter().map(consumer::json).collect();
            answer
        })
    })
    .await
}
