//! `fencepost schedule …`

mod change;
mod list;
mod preview;
mod put;
mod serve;

use fencepost::{Error, Kind, Result, ScheduleName, ScheduleStatus, Store, Timestamp};

use crate::cli::ScheduleCommand;
use crate::printer::Printer;

/// Runs one of the commands.
pub async fn run(url: &str, command: ScheduleCommand, printer: &Printer) -> Result<()> {
    match command {
        ScheduleCommand::Put(args) => put::run(url, &args, printer).await,
        ScheduleCommand::List => list::run(url, printer).await,
        ScheduleCommand::Remove(args) => change::remove(url, &args, printer).await,
        ScheduleCommand::Pause(args) => change::pause(url, &args, printer).await,
        ScheduleCommand::Resume(args) => change::resume(url, &args, printer).await,
        ScheduleCommand::Run(args) => change::run(url, &args, printer).await,
        ScheduleCommand::Preview(args) => preview::run(url, &args, printer).await,
        ScheduleCommand::Serve(args) => serve::run(url, &args, printer).await,
    }
}

/// How one schedule stands.
///
/// # Errors
/// `not_found` when it does not exist.
async fn find(store: &Store, name: &ScheduleName) -> Result<ScheduleStatus> {
    store.schedule(name).await?.ok_or_else(|| absent(name))
}

fn absent(name: &ScheduleName) -> Error {
    Error::new(Kind::NotFound, format!("cannot find the schedule `{name}`"))
        .with("schedule", name)
        .hinted("`fencepost schedule list` shows the schedules there are; `fencepost schedule put` makes one")
}

/// An instant as it is typed.
fn instant(text: &str, argument: &'static str) -> Result<Timestamp> {
    text.parse().map_err(|_| {
        Error::invalid(
            format!("cannot use `{text}` as an instant"),
            "allowed is RFC 3339 with an offset, such as `2026-12-24T18:00:00Z`",
        )
        .with("argument", argument)
    })
}
