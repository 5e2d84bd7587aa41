//! `fencepost schedule list`: when each schedule fires next, and who leads.

use fencepost::{Result, ScheduleStatus, Timestamp};
use serde_json::json;

use super::leader::Leader;
use super::state;
use crate::commands::lease;
use crate::open;
use crate::printer::Printer;
use crate::table::Table;
use crate::text;

/// Runs the command.
pub async fn run(url: &str, printer: &Printer) -> Result<()> {
    open::existing(url, async |store| {
        let (schedules, leader, now) = (store.schedule_status().await?, Leader::find(store).await?, store.now().await?);
        let human = || match &*schedules {
            [] => "no schedules yet; `fencepost schedule put NAME SPEC --queue Q` makes one".into(),
            schedules => {
                let table = table(schedules, now).render();
                led_by(&leader, now).map_or_else(|| table.trim_end().to_owned(), |led_by| format!("{table}\n{led_by}"))
            }
        };
        printer.answer(human, || {
            json!({
                "schedules": schedules.iter().map(state::json).collect::<Vec<_>>(),
                "leader": leader.lease().map(|leader| lease::json(leader, now)),
            })
        })
    })
    .await
}

/// Who fires them; nothing where the caller may not see that.
fn led_by(leader: &Leader, now: Timestamp) -> Option<String> {
    if let Some(holding) = leader.holding(now) {
        let since = text::duration(now.since(holding.since));
        return Some(format!("fired by {} for {since}", text::shown(holding.holder.as_str())));
    }
    leader.is_nobody(now).then(|| "nobody fires them: run `fencepost schedule serve`".into())
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
            status
                .next
                .map(|next| {
                    let local = state::local(status, next).map(|local| format!(", {local}")).unwrap_or_default();
                    format!("{}{local}", text::relative(next.due_at, now))
                })
                .into(),
            status.last.map(|last| text::relative(last.fired_at, now)).into(),
            status.missed.into(),
            state::in_words(status, now).into(),
        ]);
    }
    table
}
