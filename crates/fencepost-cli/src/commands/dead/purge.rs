//! `fencepost dead purge`: removes dead letters for good.

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
        let count = store.purge_dead_letters(&choice.path, choice.ids.as_deref()).await?;
        printer.answer(
            || format!("purged {} of `{}`", text::counted(count, "dead letter"), choice.path),
            || choice.json("purged", count),
        )
    })
    .await
}
