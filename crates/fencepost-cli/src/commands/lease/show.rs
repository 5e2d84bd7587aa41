//! `fencepost lease show`: how a lease stands, and what was taken by force.

use fencepost::{Epoch, LeaseName, Result, Timestamp};

use crate::cli::LeaseNameArgs;
use crate::commands::forced;
use crate::open;
use crate::printer::Printer;
use crate::table::facts;
use crate::text;

/// Runs the command.
pub async fn run(url: &str, args: &LeaseNameArgs, printer: &Printer) -> Result<()> {
    let name = LeaseName::new(&args.name)?;
    open::existing(url, async |store| {
        let status = super::find(store, &name).await?;
        let history = store.lease_history(&name).await?;
        let now = store.now().await?;
        let human = || {
            let (state, holding) = (&status.state, status.state.holding.as_ref());
            let at = |at: Timestamp| format!("{} ({})", text::relative(at, now), text::rfc3339(at));
            let epoch = state.epoch.map_or_else(|| "-".into(), |epoch| epoch.to_string());
            let mut lines =
                vec![("lease", name.to_string()), ("state", super::state_name(state.phase(now)).to_owned())];
            match holding {
                Some(holding) => lines.extend([
                    ("holder", holding.holder.to_string()),
                    ("epoch", epoch),
                    ("since", at(holding.since)),
                    ("expires", at(holding.expires_at)),
                ]),
                None => lines.push(("last epoch", epoch)),
            }
            let mut screen = facts(&lines);
            if !history.is_empty() {
                screen += &format!("\n{}", forced::table(&history).render());
            }
            screen
        };
        printer.answer(human, || {
            let mut answer = super::json(&status, now);
            answer["last_epoch"] = status.state.epoch.map(Epoch::get).into();
            answer["history"] = history.iter().map(forced::json).collect();
            answer
        })
    })
    .await
}
