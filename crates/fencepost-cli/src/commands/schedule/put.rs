//! `fencepost schedule put`: makes a schedule, or changes it.

use std::time::Duration;

use fencepost::runtime::Scheduling;
use fencepost::{Key, MessageKind, Misfire, Put, QueueName, Result, Schedule, ScheduleName, Spec, Zone};
use serde_json::json;

use super::leader::Leader;
use super::{find, state};
use crate::cli::SchedulePutArgs;
use crate::open;
use crate::printer::Printer;
use crate::text;

/// Runs the command.
pub async fn run(url: &str, args: &SchedulePutArgs, printer: &Printer) -> Result<()> {
    // ORDER: what is wrong with the arguments is said before the store is opened.
    let schedule = schedule(args)?;
    let name = &schedule.definition().name;
    open::existing(url, async |store| {
        let put = store.put(&schedule).await?;
        let (status, leader) = (find(store, name).await?, Leader::find(store).await?);
        let now = store.now().await?;
        let human = || {
            let did = match put {
                Put::Created => format!("put schedule `{name}`"),
                Put::Changed => format!("changed schedule `{name}`"),
                Put::Unchanged => format!("schedule `{name}` is like that already"),
            };
            let is_idle = status.next.is_some() && leader.is_nobody(now);
            let hint = if is_idle { "\nnobody fires it yet: run `fencepost schedule serve`" } else { "" };
            format!("{did}: {}{hint}", state::next_in_words(&status, now))
        };
        printer.answer(human, || {
            let outcome = match put {
                Put::Created => "created",
                Put::Changed => "changed",
                Put::Unchanged => "unchanged",
            };
            json!({"name": name.as_str(), "outcome": outcome, "spec": status.definition.spec,
                "next_at": state::next_at(&status), "paused": status.is_paused})
        })
    })
    .await
}

fn schedule(args: &SchedulePutArgs) -> Result<Schedule> {
    let (name, queue) = (ScheduleName::new(&args.name)?, QueueName::new(&args.queue)?);
    let misfire: Misfire = args.misfire.parse()?;
    let instant = |text: &Option<String>| text.as_deref().map(str::parse).transpose();
    let (from, until) = (instant(&args.from)?, instant(&args.until)?);
    let key = args.key.as_deref().map(Key::new).transpose()?;
    Schedule::new(name, Spec::parse(&args.spec)?, queue)
        .zone(Zone::parse(&args.zone)?)
        .kind(MessageKind::new(&args.kind)?)
        .key(key)
        .payload(args.payload.as_bytes())?
        .misfire(misfire)?
        .jitter(jitter(&args.jitter)?)?
        .within(from, until)
}

fn jitter(text: &str) -> Result<Duration> {
    text::parse_duration(text, "jitter", "a jitter", "allowed is from `0s` to `1d`")
}
