//! Runs one command: a file for each, in a tree that mirrors the help.

mod consumer;
mod demo;
mod forced;
mod init;
mod lease;
mod queue;
mod send;
mod slot;
mod status;

use std::process::ExitCode;

use fencepost::Result;

use crate::cli::{Cli, Command, ConsumerCommand, LeaseCommand, QueueCommand, SlotCommand};
use crate::exit::Exit;
use crate::printer::Printer;

/// Runs the command that was asked for, and says how to exit.
pub async fn run(cli: Cli, printer: &Printer) -> Result<ExitCode> {
    let store = cli.store.as_str();
    match cli.command {
        Command::Demo(args) => demo::run(store, &args, printer).await?,
        Command::DemoWorker(args) => demo::worker::run(store, &args).await?,
        Command::Init => init::run(store, printer).await?,
        Command::Status => status::run(store, printer).await?,
        Command::Queue(QueueCommand::Create(args)) => queue::create::run(store, &args, printer).await?,
        Command::Queue(QueueCommand::List) => queue::list::run(store, printer).await?,
        Command::Queue(QueueCommand::Show(args)) => queue::show::run(store, &args, printer).await?,
        Command::Queue(QueueCommand::Drop(args)) => queue::drop::run(store, &args, printer).await?,
        Command::Consumer(ConsumerCommand::Create(args)) => consumer::create::run(store, &args, printer).await?,
        Command::Consumer(ConsumerCommand::List(args)) => consumer::list::run(store, &args, printer).await?,
        Command::Consumer(ConsumerCommand::Show(args)) => consumer::show::run(store, &args, printer).await?,
        Command::Consumer(ConsumerCommand::Drop(args)) => consumer::drop::run(store, &args, printer).await?,
        Command::Send(args) => send::run(store, &args, printer).await?,
        Command::Slot(SlotCommand::List(args)) => slot::list::run(store, &args, printer).await?,
        Command::Slot(SlotCommand::Release(args)) => slot::release::run(store, &args, printer).await?,
        Command::Lease(LeaseCommand::Run(args)) => return Ok(lease::run::run(store, args, printer).await),
        Command::Lease(LeaseCommand::List) => lease::list::run(store, printer).await?,
        Command::Lease(LeaseCommand::Show(args)) => lease::show::run(store, &args, printer).await?,
        Command::Lease(LeaseCommand::Release(args)) => lease::release::run(store, &args, printer).await?,
        Command::LeaseChild(args) => return Ok(lease::run::tie::become_command(&args)),
    }
    Ok(Exit::Done.into())
}
