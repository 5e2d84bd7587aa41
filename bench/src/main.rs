//! Measures fencepost beside what it is built on: same machine, same run, interleaved rounds, medians with their spread.
//!
//! `fencepost-bench sqlite [--rounds N] [--folder DIR]` prints a table in Markdown. The folder must be on the disk that counts.

mod figures;
mod sqlite;

use std::path::PathBuf;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            figures::say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut what, mut rounds, mut folder) = (None, 5, std::env::current_dir()?);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--rounds" => rounds = arguments.next().ok_or("--rounds needs a number")?.parse()?,
            "--folder" => folder = PathBuf::from(arguments.next().ok_or("--folder needs a path")?),
            _ => what = Some(argument),
        }
    }
    match what.as_deref() {
        Some("sqlite") => sqlite::run(rounds, &folder).await,
        _ => Err("usage: fencepost-bench sqlite [--rounds N] [--folder DIR]".into()),
    }
}
