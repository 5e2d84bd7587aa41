//! Runs one command: a file for each, in a tree that mirrors the help.

mod demo;
mod init;
mod queue;
mod send;
mod status;

use fencepost::Result;

use crate::cli::{Cli, Command, QueueCommand};
use crate::printer::Printer;

/// Runs the command that was asked for.
pub async fn run(cli: Cli, printer: &Printer) -> Result<()> {
    let store = cli.store.as_str();
    match cli.command {
        Command::Demo(args) => demo::run(store, &args, printer).await,
        Command::DemoWorker(args) => demo::worker::run(store, &args).await,
        Command::Init => init::run(store, printer).await,
        Command::Status => status::run(store, printer).await,
        Command::Queue(QueueCommand::Create(args)) => queue::create::run(store, &args, printer).await,
        Command::Queue(QueueCommand::List) => queue::list::run(store, printer).await,
        Command::Send(args) => send::run(store, &args, printer).await,
    }
}
