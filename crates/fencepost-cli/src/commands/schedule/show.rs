//! `fencepost schedule show`: what a schedule sends, how it stands, and what it has fired.

use fencepost::{Fired, NextFire, Result, ScheduleName, ScheduleStatus, Timestamp};
use serde_json::{Value, json};

use super::{find, state};
use crate::cli::ScheduleNameArgs;
use crate::commands::message;
use crate::open;
use crate::printer::Printer;
use crate::table::{Table, facts};
use crate::text;

/// How much of a payload is shown.
const PAYLOAD: usize = 200;

/// Runs the command.
pub async fn run(url: &str, args: &ScheduleNameArgs, printer: &Printer) -> Result<()> {
    let name = ScheduleName::new(&args.name)?;
    open::existing(url, async |store| {
        let (status, fires) = (find(store, &name).await?, store.schedule_history(&name).await?);
        let now = store.now().await?;
        let human = || {
            let fires = match &*fires {
                [] => "it has not fired yet\n".to_owned(),
                fires => table(fires).render(),
            };
            format!("{}\n{fires}", facts(&lines(&status, now)))
        };
        printer.answer(human, || {
            let mut answer = state::json(&status);
            message::extend_with_payload(&mut answer, &status.definition.payload);
            answer["fires"] = fires.iter().map(json_of).collect();
            answer
        })
    })
    .await
}

fn lines(status: &ScheduleStatus, now: Timestamp) -> Vec<(&'static str, String)> {
    let definition = &status.definition;
    let or_none = |shown: Option<String>| shown.unwrap_or_else(|| "-".into());
    let next = |next: NextFire| {
        let local = state::local(status, next).map(|local| format!(" ({local})")).unwrap_or_default();
        format!("{}{local}, {}", text::rfc3339(next.nominal_at), text::relative(next.nominal_at, now))
    };
    let at = |at: Timestamp| format!("{}, {}", text::rfc3339(at), text::relative(at, now));
    vec![
        ("schedule", definition.name.to_string()),
        ("spec", definition.spec.clone()),
        ("zone", definition.zone.clone()),
        ("queue", definition.queue.to_string()),
        ("kind", definition.kind.to_string()),
        ("key", or_none(definition.key.as_ref().map(|key| key.to_string()))),
        ("payload", text::excerpt(&String::from_utf8_lossy(&definition.payload), PAYLOAD)),
        ("misfire", definition.misfire.to_string()),
        ("jitter", text::exact(definition.jitter)),
        ("from", or_none(definition.from.map(text::rfc3339))),
        ("until", or_none(definition.until.map(text::rfc3339))),
        ("state", state::in_words(status, now)),
        ("next", or_none(status.next.map(next))),
        ("last", or_none(status.last.map(|last| at(last.nominal_at)))),
        ("missed", text::counted(status.missed, "time")),
    ]
}

/// The last comes first.
fn table(fires: &[Fired]) -> Table {
    let mut table = Table::new(["nominal time", "late", "message"]);
    for fired in fires.iter().rev() {
        table.row([
            text::rfc3339(fired.nominal_at).into(),
            text::duration(fired.fired_at.since(fired.nominal_at)).into(),
            fired.message.to_string().into(),
        ]);
    }
    table
}

fn json_of(fired: &Fired) -> Value {
    json!({
        "nominal_at": text::rfc3339(fired.nominal_at),
        "fired_at": text::rfc3339(fired.fired_at),
        "message_id": fired.message.get(),
    })
}
