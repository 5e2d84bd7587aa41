//! `fencepost schedule remove`, `pause`, `resume` and `run`.

use fencepost::refusal::no_schedule;
use fencepost::runtime::Scheduling;
use fencepost::{Result, ScheduleName};
use serde_json::json;

use super::{find, state};
use crate::cli::ScheduleNameArgs;
use crate::open;
use crate::printer::Printer;
use crate::text;

/// Removes a schedule.
pub async fn remove(url: &str, args: &ScheduleNameArgs, printer: &Printer) -> Result<()> {
    let name = ScheduleName::new(&args.name)?;
    open::existing(url, async |store| {
        if !store.remove_schedule(&name).await? {
            return Err(no_schedule(&name));
        }
        printer.answer(|| format!("removed schedule `{name}`"), || json!({"name": name.as_str(), "removed": true}))
    })
    .await
}

/// Pauses a schedule. Doing it again changes nothing.
pub async fn pause(url: &str, args: &ScheduleNameArgs, printer: &Printer) -> Result<()> {
    let name = ScheduleName::new(&args.name)?;
    open::existing(url, async |store| {
        let changed = store.pause_schedule(&name).await?;
        let human = || match changed {
            true => format!("paused schedule `{name}`: it fires nothing until it is resumed"),
            false => format!("schedule `{name}` is already paused"),
        };
        printer.answer(human, || json!({"name": name.as_str(), "paused": true, "changed": changed}))
    })
    .await
}

/// Lets a schedule go on. Doing it again changes nothing.
pub async fn resume(url: &str, args: &ScheduleNameArgs, printer: &Printer) -> Result<()> {
    let name = ScheduleName::new(&args.name)?;
    open::existing(url, async |store| {
        let changed = store.resume(&name).await?;
        let (status, now) = (find(store, &name).await?, store.now().await?);
        let human = || {
            let next = state::next_in_words(&status, now);
            match changed {
                true => format!("resumed schedule `{name}`: {next}"),
                false => format!("schedule `{name}` is not paused: {next}"),
            }
        };
        printer.answer(human, || {
            json!({"name": name.as_str(), "paused": status.is_paused, "changed": changed, "next_at": state::next_at(&status)})
        })
    })
    .await
}

/// Sends one message of a schedule now.
pub async fn run(url: &str, args: &ScheduleNameArgs, printer: &Printer) -> Result<()> {
    let name = ScheduleName::new(&args.name)?;
    open::existing(url, async |store| {
        let fired = store.run_schedule(&name).await?;
        printer.answer(
            || format!("sent message {} of schedule `{name}`", fired.message),
            || json!({"name": name.as_str(), "id": fired.message.get(), "nominal_at": text::rfc3339(fired.nominal_at)}),
        )
    })
    .await
}
