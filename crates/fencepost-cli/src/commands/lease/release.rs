//! `fencepost lease release`: an operator takes a lease from whoever holds it.

use fencepost::{LeaseName, Reason, Result};
use serde_json::json;

use crate::cli::LeaseReleaseArgs;
use crate::open;
use crate::printer::Printer;

/// Runs the command.
pub async fn run(url: &str, args: &LeaseReleaseArgs, printer: &Printer) -> Result<()> {
    let (name, reason) = (LeaseName::new(&args.name)?, Reason::new(&args.reason)?);
    open::existing(url, async |store| {
        // A name that nobody ever acquired is a slip of the pen, and must not become a lease.
        super::find(store, &name).await?;
        let epoch = store.force_release_lease(&name, &reason).await?;
        // Who it was taken from was judged with the transition, and stands in the history.
        let history = store.lease_history(&name).await?;
        let from = history.into_iter().find(|forced| forced.epoch == epoch).and_then(|forced| forced.from);
        let human = || {
            let whose = from.as_ref().map_or_else(|| ", which nobody held".into(), |from| format!(" from `{from}`"));
            format!("took the lease `{name}`{whose}; its epoch is now {epoch}")
        };
        printer.answer(
            human,
            || json!({"name": name.as_str(), "epoch": epoch.get(), "from": from, "reason": reason.as_str()}),
        )
    })
    .await
}
