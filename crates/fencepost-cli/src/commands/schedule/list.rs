//! `fencepost schedule list`: when each schedule fires next, and who leads.

use fencepost::runtime::LEADER;
use fencepost::{LeaseStatus, Result, ScheduleStatus, Store, Timestamp};
use serde_json::json;

use super::state;
use crate::commands::lease;
use crate::open;
use crate::printer::Printer;
use crate::table::Table;
use crate::text;

/// Runs the command.
pub async fn run(url: &str, printer: &Printer) -> Result<()> {
    open::existing(url, async |store| {
        let (schedules, leader, now) = (store.schedule_status().await?, leader(store).await?, store.now().await?);
        let human = || match &*schedules {
            [] => "no schedules yet; `fencepost schedule put NAME SPEC --queue Q` makes one".into(),
            schedules => format!("{}\n{}", table(schedules, now).render(), led_by(leader.as_ref(), now)),
        };
        printer.answer(human, || {
            json!({
                "schedules": schedules.iter().map(state::json).collect::<Vec<_>>(),
                "leader": leader.as_ref().map(|leader| lease::json(leader, now)),
            })
        })
    })
    .await
}

/// The leader's lease, where the caller may see that.
async fn leader(store: &Store) -> Result<Option<LeaseStatus>> {
    Ok(store.lease_status().await?.into_iter().find(|lease| lease.name.as_str() == LEADER))
}

fn led_by(leader: Option<&LeaseStatus>, now: Timestamp) -> String {
    let holding = leader.filter(|lease| state::is_led_by(lease, now)).and_then(|lease| lease.state.holding.as_ref());
    match holding {
        Some(holding) => {
            let since = text::duration(now.since(holding.since));
            format!("fired by {} for {since}", text::shown(holding.holder.as_str()))
        }
        None => "nobody fires them: run `fencepost schedule serve`".into(),
    }
}

fn table(schedules: &[ScheduleStatus], now: Timestamp) -> Table {
    let mut table = Table::new(["schedule", "spec", "zone", "queue", "next", "last", "missed", "state"]);
    for status in schedules {
        let definition = &status.definition;
        table.row([
            definition.name.to_string().into(),
            definition.spec.clone().into(),
            definition.zone.clone().into(),
            definition.queue.to_string().into(),
            status.next.map(|next| text::relative(next.due_at, now)).into(),
            status.last.map(|last| text::relative(last.fired_at, now)).into(),
            status.missed.into(),
            state::in_words(status).into(),
        ]);
    }
    table
}
