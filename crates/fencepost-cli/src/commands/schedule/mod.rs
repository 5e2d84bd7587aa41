//! `fencepost schedule …`

mod change;
pub mod leader;
mod list;
mod preview;
mod put;
mod serve;
mod show;
pub mod state;

use fencepost::refusal::no_schedule;
use fencepost::{Result, ScheduleName, ScheduleStatus, Store};

use crate::cli::ScheduleCommand;
use crate::printer::Printer;

/// Runs one of the commands.
pub async fn run(url: &str, command: ScheduleCommand, printer: &Printer) -> Result<()> {
    match command {
        ScheduleCommand::Put(args) => put::run(url, &args, printer).await,
        ScheduleCommand::List => list::run(url, printer).await,
        ScheduleCommand::Show(args) => show::run(url, &args, printer).await,
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
    store.schedule(name).await?.ok_or_else(|| no_schedule(name))
}
