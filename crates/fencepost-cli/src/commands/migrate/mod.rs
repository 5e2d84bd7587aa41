//! `fencepost migrate …`: brings a database's own tables up to date. Opens no store: the database needs nothing else of fencepost.

mod change;
mod new;
mod state;
mod story;
mod target;
mod up;
mod wait;

use std::error::Error as _;
use std::process::ExitCode;

use fencepost::migrate::{MigrationFailure, Problems};
use fencepost::{Error, Result};

use crate::cli::MigrateCommand;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::text;

/// Runs the command.
pub async fn run(url: &str, command: MigrateCommand, printer: &Printer) -> Result<ExitCode> {
    let exit = match command {
        MigrateCommand::New(args) => new::run(&args, printer).map(|()| Exit::Done),
        MigrateCommand::Up(args) => up::run(url, &args, printer).await.map(|()| Exit::Done),
        MigrateCommand::Down(args) => up::down(url, &args, printer).await.map(|()| Exit::Done),
        MigrateCommand::Status(args) => state::run(url, &args, printer).await.map(|()| Exit::Done),
        MigrateCommand::Verify(args) => state::verify(url, &args, printer).await.map(|()| Exit::Done),
        MigrateCommand::Wait(args) => wait::run(url, &args, printer).await,
        MigrateCommand::Baseline(args) => change::baseline(url, &args, printer).await.map(|()| Exit::Done),
        MigrateCommand::Repair(args) => change::repair(url, &args, printer).await.map(|()| Exit::Done),
        MigrateCommand::Import(args) => change::import(url, &args, printer).await.map(|()| Exit::Done),
    };
    Ok(exit.unwrap_or_else(|error| failed(&error, printer)).into())
}

/// Shows a failure: one of a file with the lines around it.
fn failed(error: &Error, printer: &Printer) -> Exit {
    let source = error.source();
    if let Some(failure) = source.and_then(|source| source.downcast_ref::<MigrationFailure>()) {
        return printer.shown_error(&failure.render(true), error);
    }
    if let Some(problems) = source.and_then(|source| source.downcast_ref::<Problems>()) {
        let rendered: Vec<_> = problems.iter().map(|problem| problem.render(true)).collect();
        return printer.shown_error(&rendered.join("\n\n"), error);
    }
    printer.error(error)
}

/// How a file is called, for people.
fn title(number: u64, name: &str) -> String {
    format!("{number:04}_{}", text::shown(name))
}
