//! fencepost beside alkstore-sqlite: two programs, since two bindings of SQLite cannot be linked into one, that measure the same
//! rows on the same disk, turn by turn.

mod lines;
mod report;

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use fencepost_bench_rows::{Acks, Outcome, Row, Synchronous, say};
use tokio::process::Command;

use crate::Where;
use crate::figures::Figures;
use lines::{Line, lines};

/// Nothing that is measured takes as long.
const BOUND: Duration = Duration::from_secs(600);

/// What to measure, and how long.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    place: Where,
    /// The program of the peer.
    #[arg(long)]
    peer: PathBuf,
    /// One short round, to see that everything works; its figures mean nothing.
    #[arg(long)]
    quick: bool,
    /// Only rows with this in their title.
    #[arg(long, default_value = "")]
    only: String,
    /// How long a rate is measured, in milliseconds.
    #[arg(long, default_value_t = 1_500)]
    time: u64,
    /// How many sends wake a sleeper.
    #[arg(long, default_value_t = 200)]
    wakes: u64,
    /// How long a worker idles, in milliseconds.
    #[arg(long, default_value_t = 10_000)]
    idle: u64,
    /// The depths at which batches of 100 are received.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000, 100_000])]
    depths: Vec<u64>,
    /// Messages in the backlog that is drained.
    #[arg(long, default_value_t = 1_000_000)]
    backlog: u64,
}

impl Options {
    /// A round of well below a minute.
    fn quick(&self) -> Self {
        let place = Where { rounds: 1, folder: self.place.folder.clone() };
        let (peer, only) = (self.peer.clone(), self.only.clone());
        Self {
            place,
            peer,
            quick: true,
            only,
            time: 200,
            wakes: 20,
            idle: 1_000,
            depths: vec![1_000, 10_000],
            backlog: 20_000,
        }
    }
}

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Side {
    Fencepost(Synchronous),
    Peer,
}

impl Side {
    const ALL: [Self; 3] = [Self::Peer, Self::Fencepost(Synchronous::Normal), Self::Fencepost(Synchronous::Full)];

    /// Where the figures of a measure are kept. A row that the peer does not have is compared with the one it has instead.
    fn key(self, row: Row, measure: &str) -> String {
        format!("{self:?} {} {measure}", self.row(row))
    }

    fn row(self, row: Row) -> Row {
        match (self, row) {
            (Self::Peer, Row::Take { max, depth, time, .. }) => Row::Take { acks: Acks::Apart, max, depth, time },
            _ => row,
        }
    }
}

/// Runs every row on every side `rounds` times, turn by turn, and prints what came out.
pub async fn run(options: &Options) -> Outcome<()> {
    let options = if options.quick { &options.quick() } else { options };
    let lines: Vec<Line> = lines(options).into_iter().filter(|line| line.title.contains(&options.only)).collect();
    let before = load()?;
    let mut figures = Figures::default();
    for round in 1..=options.place.rounds {
        say(&format!("round {round} of {}", options.place.rounds));
        let mut measured = HashSet::new();
        for line in &lines {
            for side in line.sides() {
                if measured.insert((side, side.row(line.row).to_string())) {
                    measure(options, *side, line.row, &mut figures)
                        .await
                        .map_err(|error| format!("`{}` of {side:?} cannot be measured: {error}", line.row))?;
                }
            }
        }
    }
    say(&report::table(&lines, &figures));
    say(&report::flatness(&lines, &figures));
    say(&format!("load before and after, over 1, 5 and 15 minutes: {before}; {}", load()?));
    Ok(())
}

/// Runs the program of one side for one row and keeps what it prints.
async fn measure(options: &Options, side: Side, row: Row, figures: &mut Figures) -> Outcome<()> {
    let (program, synchronous) = match side {
        Side::Fencepost(synchronous) => (std::env::current_exe()?, synchronous),
        Side::Peer => (options.peer.clone(), Synchronous::Normal),
    };
    let mut command = Command::new(program);
    command.arg(synchronous.to_string()).arg(&options.place.folder).args(side.row(row).to_string().split(' '));
    command.stdin(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true);
    // What another row has left to be written would be written during this one.
    Command::new("sync").status().await?;
    let output = tokio::time::timeout(BOUND, command.output()).await??;
    let text = String::from_utf8(output.stdout)?;
    if !output.status.success() {
        return Err(text.trim().into());
    }
    for line in text.lines() {
        let (measure, value) = line.split_once(' ').ok_or("a measure is a name and a number")?;
        figures.add_value(&side.key(row, measure), value.parse()?);
    }
    Ok(())
}

/// What else the machine does.
fn load() -> Outcome<String> {
    let text = std::fs::read_to_string("/proc/loadavg")?;
    Ok(text.split(' ').take(3).collect::<Vec<_>>().join(" "))
}
