//! Runs one command: a file for each, in a tree that mirrors the help.

mod completions;
mod consumer;
mod dead;
mod demo;
mod doctor;
mod forced;
mod init;
mod lease;
mod man;
mod message;
mod migrate;
mod queue;
mod schedule;
mod send;
mod slot;
mod status;
mod tail;
mod work;

use std::process::ExitCode;

use fencepost::{Error, Kind, Result};

use crate::child::{guard, tie};
use crate::cli::{Cli, Command, ConsumerCommand, DeadCommand, LeaseCommand, QueueCommand, SlotCommand};
use crate::exit::Exit;
use crate::printer::Printer;

/// Runs the command that was asked for, and says how to exit.
pub async fn run(cli: Cli, printer: &Printer) -> Result<ExitCode> {
    let store = cli.store.as_str();
    match cli.command {
        Command::Demo(args) => demo::run(store, &args, printer).await?,
        Command::DemoWorker(args) => demo::worker::run(store, &args).await?,
        Command::Init => init::run(store, printer).await?,
        Command::Doctor => return Ok(doctor::run(store, printer).await?.into()),
        Command::Completions(args) => completions::run(&args, printer)?,
        Command::Man(args) => man::run(&args, printer)?,
        Command::Status(args) => status::run(store, &args, printer).await?,
        Command::Queue(QueueCommand::Create(args)) => queue::create::run(store, &args, printer).await?,
        Command::Queue(QueueCommand::List) => queue::list::run(store, printer).await?,
        Command::Queue(QueueCommand::Show(args)) => queue::show::run(store, &args, printer).await?,
        Command::Queue(QueueCommand::Pause(args)) => queue::pause::run(store, &args, printer).await?,
        Command::Queue(QueueCommand::Resume(args)) => queue::pause::resume(store, &args, printer).await?,
        Command::Queue(QueueCommand::Retain(args)) => queue::retain::run(store, &args, printer).await?,
        Command::Queue(QueueCommand::Drop(args)) => queue::drop::run(store, &args, printer).await?,
        Command::Consumer(ConsumerCommand::Create(args)) => consumer::create::run(store, &args, printer).await?,
        Command::Consumer(ConsumerCommand::List(args)) => consumer::list::run(store, &args, printer).await?,
        Command::Consumer(ConsumerCommand::Show(args)) => consumer::show::run(store, &args, printer).await?,
        Command::Consumer(ConsumerCommand::Drop(args)) => consumer::drop::run(store, &args, printer).await?,
        Command::Send(args) => send::run(store, &args, printer).await?,
        Command::Tail(args) => tail::run(store, &args, printer).await?,
        Command::Work(args) => work::run(store, &args, printer).await?,
        Command::Dead(DeadCommand::List(args)) => dead::list::run(store, &args, printer).await?,
        Command::Dead(DeadCommand::Show(args)) => dead::show::run(store, &args, printer).await?,
        Command::Dead(DeadCommand::Replay(args)) => dead::replay::run(store, &args, printer).await?,
        Command::Dead(DeadCommand::Purge(args)) => dead::purge::run(store, &args, printer).await?,
        Command::Slot(SlotCommand::List(args)) => slot::list::run(store, &args, printer).await?,
        Command::Slot(SlotCommand::Release(args)) => slot::release::run(store, &args, printer).await?,
        Command::Lease(LeaseCommand::Run(args)) => return Ok(lease::run::run(store, args, printer).await),
        Command::Lease(LeaseCommand::List) => lease::list::run(store, printer).await?,
        Command::Lease(LeaseCommand::Show(args)) => lease::show::run(store, &args, printer).await?,
        Command::Lease(LeaseCommand::Release(args)) => lease::release::run(store, &args, printer).await?,
        Command::Schedule(command) => schedule::run(store, command, printer).await?,
        Command::Migrate(command) => return migrate::run(store, command, printer).await,
        Command::Child(args) => return Ok(tie::become_command(&args)),
        Command::Guard => guard::stand()
            .map_err(|cause| Error::new(Kind::Unavailable, "cannot listen for signals").caused_by(cause))?,
    }
    Ok(Exit::Done.into())
}
