//! Measures fencepost beside what it is built on and beside its peers: same machine, same run, interleaved rounds, medians with
//! their spread, as tables in Markdown.
//!
//! `fencepost-bench full|normal …` measures one row of fencepost instead, as the programs of the peers do of theirs.

mod figures;
mod peers;
mod postgres;
mod schedules;
mod soak;
mod sqlite;
mod subject;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser};
use fencepost_bench_rows::{Outcome, Synchronous, say};

/// What to measure.
#[derive(Parser)]
enum Command {
    /// Beside prepared inserts into the same table.
    Sqlite(Where),
    /// PostgreSQL, beside inserts into the same table, a skip-locked table, and peers.
    Postgres(Box<postgres::Options>),
    /// PostgreSQL for a long time at half load, while workers are killed.
    Soak(soak::Options),
    /// The scheduler, on SQLite and on PostgreSQL.
    Schedules(schedules::Options),
    /// Beside a peer, in a program of its own.
    Peers(peers::Options),
}

/// Where, and how often.
#[derive(Args)]
struct Where {
    /// Rounds, of which the median is taken.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// A folder on the disk that counts.
    #[arg(long, default_value = ".")]
    folder: PathBuf,
}

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
    if words == [postgres::HOLD] {
        return postgres::hold().await;
    }
    if words == [soak::WORKER] {
        return soak::work().await;
    }
    if words == [schedules::LEAD] {
        return schedules::lead().await;
    }
    match Command::parse() {
        Command::Sqlite(place) => sqlite::run(place.rounds, &place.folder).await,
        Command::Postgres(options) => postgres::run(*options).await,
        Command::Soak(options) => soak::run(options).await,
        Command::Schedules(options) => schedules::run(&options).await,
        Command::Peers(options) => peers::run(&options).await,
    }
}
