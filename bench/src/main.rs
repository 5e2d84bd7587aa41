//! Measures fencepost beside what it is built on and beside its peers: same machine, same run, interleaved rounds, medians with
//! their spread.
//!
//! `fencepost-bench sqlite|peers [--rounds N] [--folder DIR]` prints tables in Markdown. The folder must be on the disk that
//! counts. `fencepost-bench full|normal …` measures one row of fencepost, as the programs of the peers do of theirs.

mod figures;
mod sqlite;
mod subject;

use std::path::PathBuf;
use std::process::ExitCode;

use fencepost_bench_rows::{Outcome, Synchronous, say};

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|first| first.parse::<Synchronous>().is_ok()) {
        return fencepost_bench_rows::run::<subject::Fencepost>(&words).await;
    }
    let mut arguments = words.into_iter();
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
