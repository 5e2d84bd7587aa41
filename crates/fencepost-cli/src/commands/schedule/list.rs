//! `fencepost schedule list`: when each schedule fires next, and who leads.

use fencepost::lease::Phase;
use fencepost::runtime::LEADER;
use fencepost::{LeaseName, LeaseStatus, Result, ScheduleStatus, Store, Timestamp};
use serde_json::{Value, json};

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
                "schedules": schedules.iter().map(json_of).collect::<Vec<_>>(),
                "leader": leader.as_ref().map(|leader| lease::json(leader, now)),
            })
        })
    })
    .await
}

async fn leader(store: &Store) -> Result<Option<LeaseStatus>> {
    store.lease(&LeaseName::new(LEADER)?).await
}

fn led_by(leader: Option<&LeaseStatus>, now: Timestamp) -> String {
    let holding = leader.filter(|status| status.state.phase(now) == Phase::Live);
    match holding.and_then(|status| status.state.holding.as_ref()) {
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
            state(status).into(),
        ]);
    }
    table
}

/// Why it does not fire, which is told before whoever fires has found it.
fn problem(status: &ScheduleStatus) -> Option<&str> {
    status.problem.as_deref().or(status.unreadable.as_deref())
}

/// How a schedule stands, in words.
fn state(status: &ScheduleStatus) -> String {
    match problem(status) {
        Some(problem) => format!("problem: {}", text::excerpt(problem, 60)),
        None if status.is_paused => "paused".into(),
        None if status.next.is_none() => "over".into(),
        None => "waiting".into(),
    }
}

/// A schedule for programs.
fn json_of(status: &ScheduleStatus) -> Value {
    let definition = &status.definition;
    json!({
        "name": definition.name.as_str(),
        "spec": definition.spec,
        "zone": definition.zone,
        "queue": definition.queue.as_str(),
        "kind": definition.kind.as_str(),
        "key": definition.key.as_ref().map(|key| key.as_str()),
        "misfire": definition.misfire.to_string(),
        "jitter_ms": u64::try_from(definition.jitter.as_millis()).unwrap_or(u64::MAX),
        "from": definition.from.map(text::rfc3339),
        "until": definition.until.map(text::rfc3339),
        "paused": status.is_paused,
        "next_at": status.next.map(|next| text::rfc3339(next.nominal_at)),
        "due_at": status.next.map(|next| text::rfc3339(next.due_at)),
        "last_at": status.last.map(|last| text::rfc3339(last.nominal_at)),
        "last_fired_at": status.last.map(|last| text::rfc3339(last.fired_at)),
        "last_message_id": status.last.map(|last| last.message.get()),
        "missed": status.missed,
        "problem": problem(status),
    })
}
