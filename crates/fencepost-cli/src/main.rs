//! The program `fencepost`: parses, runs one command, and ends with an exit status that scripts can rely on.
//!
//! `cli` is the tree of commands, `commands` runs them, `child` is a command of somebody else's that it runs, `printer` is the one way out for text, `outlet` its thread, `exit` the table of statuses.

mod child;
mod cli;
mod commands;
mod exit;
mod open;
mod outlet;
mod printer;
mod records;
mod table;
mod text;

use std::process::ExitCode;

use clap::Parser;
use fencepost::{Error, Kind, Result};

use crate::cli::Cli;
use crate::printer::Printer;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let printer = Printer::new(cli::asks_for_json(&arguments));
    printer.report_panics();
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(answer) => return printer.parser_answer(&answer).into(),
    };
    let code = run(cli, &printer).unwrap_or_else(|error| printer.error(&error).into());
    outlet::flush();
    code
}

fn run(cli: Cli, printer: &Printer) -> Result<ExitCode> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|cause| Error::new(Kind::Unavailable, "cannot start threads").caused_by(cause))?
        .block_on(commands::run(cli, printer))
}
