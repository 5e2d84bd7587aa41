//! `fencepost dead replay`: hands dead letters to their consumer once more.

use fencepost::Result;

use super::Choice;
use crate::cli::DeadChoiceArgs;
use crate::open;
use crate::printer::Printer;
use crate::text;

/// Runs the command.
pub async fn run(url: &str, args: &DeadChoiceArgs, printer: &Printer) -> Result<()> {
    let choice = Choice::new(args)?;
    open::existing(url, async |store| {
        choice.check(store).await?;
        let count = store.replay_dead_letters(&choice.path, choice.ids.as_deref()).await?;
        printer.answer(
            || {
                format!(
                    "replayed {} of `{}`: they are handed out once more",
                    text::counted(count, "dead letter"),
                    choice.path
                )
            },
            || choice.json("replayed", count),
        )
    })
    .await
}
