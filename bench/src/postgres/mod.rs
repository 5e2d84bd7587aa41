//! The PostgreSQL engine beside a prepared INSERT into the same table, a skip-locked table, and peers: one server, side by side in
//! interleaved rounds, each side of a row in a database of its own.

mod bed;
mod drain;
mod held;
mod lease;
mod report;
mod send;
mod worker;

use std::fmt;
use std::path::PathBuf;
use std::process::Stdio;

use clap::Args;
use fencepost_bench_rows::{Outcome, say};
use fencepost_test_support::{DEFAULT_MAJOR, PgServer, PrivateServer};

use crate::figures::Figures;
use bed::Bed;
use drain::Drain;
pub use worker::{HOLD, hold};

/// Names the variable with the URL of a database for programs that are started, since everybody reads command lines.
const URL: &str = "DATABASE_URL";

/// What to measure, and how long.
#[derive(Args)]
pub struct Options {
    /// Rounds, of which the median is taken.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// One short round, to see that everything works; its figures mean nothing.
    #[arg(long)]
    quick: bool,
    /// Only rows with this in their name: send, send_batch, drain, lease, wake, takeover, idle, held.
    #[arg(long, default_value = "")]
    only: String,
    /// A database of the server to measure on, as a superuser of it; without, a server is started for the time.
    #[arg(
        long = "url",
        env = "FENCEPOST_BENCH_SERVER",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true
    )]
    server: String,
    /// The SQL file of PgQue, which is measured beside when it is named.
    #[arg(long, env = "PGQUE_SQL")]
    pgque_sql: Option<PathBuf>,
    /// The program of alkstore-postgres, which is measured beside when it is named.
    #[arg(long)]
    peer: Option<PathBuf>,
    /// A folder, which this measurement does not use.
    #[arg(long, hide = true)]
    folder: Option<PathBuf>,
    /// How long a rate is measured, in milliseconds.
    #[arg(long, default_value_t = 3_000)]
    time: u64,
    /// Messages in the backlog that is drained.
    #[arg(long, default_value_t = 200_000)]
    backlog: u64,
    /// Leases taken in turn with bare updates.
    #[arg(long, default_value_t = 500)]
    leases: u64,
    /// How many sends wake an idle worker.
    #[arg(long, default_value_t = 400)]
    wakes: u64,
    /// How long a worker idles, in milliseconds.
    #[arg(long, default_value_t = 10_000)]
    idle: u64,
    /// How long a snapshot is held, in seconds, for each form of it.
    #[arg(long, default_value_t = 180)]
    held: u64,
    #[arg(skip)]
    pgque_text: Option<String>,
}

impl Options {
    fn shorten(&mut self) {
        (self.rounds, self.time, self.backlog, self.leases) = (1, 500, 10_000, 50);
        (self.wakes, self.idle, self.held) = (30, 2_000, 6);
    }

    /// The SQL of PgQue.
    fn pgque(&self) -> Outcome<&str> {
        self.pgque_text.as_deref().ok_or_else(|| "PGQUE_SQL names the SQL file of PgQue".into())
    }

    fn has(&self, row: &str) -> bool {
        row.contains(&self.only)
    }
}

/// Who is measured, and by which call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// A prepared INSERT into a table with the same columns and indexes.
    Raw,
    /// A table whose rows are deleted under SKIP LOCKED.
    Skip,
    Pgque,
    /// PgQue with as few ticks as give every slot batches of the size asked for.
    PgqueLarge,
    Alkstore,
    /// The functions of the schema by prepared statements; for a single send that of the queue.
    Sql,
    /// The function that takes the queue by its name.
    ByName,
    /// That of the queue, without what wakes sleepers.
    Quiet,
    /// The store, as a program in Rust calls it.
    Store,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raw => "raw INSERT",
            Self::Skip => "skip-locked",
            Self::Pgque => "PgQue",
            Self::PgqueLarge => "PgQue, equal batches",
            Self::Alkstore => "alkstore",
            Self::Sql => "fencepost, SQL",
            Self::ByName => "fencepost, SQL by name",
            Self::Quiet => "fencepost, SQL, no wake-ups",
            Self::Store => "fencepost, Rust",
        })
    }
}

/// Where the figures of a measure are kept.
fn key(row: &str, side: Side, measure: &str) -> String {
    format!("{row} | {side} | {measure}")
}

/// The drains: consumers, partitions, messages a receive.
const DRAINS: [Drain; 8] = [
    Drain { consumers: 1, partitions: 16, max: 100 },
    Drain { consumers: 4, partitions: 16, max: 100 },
    Drain { consumers: 16, partitions: 16, max: 100 },
    Drain { consumers: 64, partitions: 64, max: 100 },
    Drain { consumers: 1, partitions: 16, max: 500 },
    Drain { consumers: 4, partitions: 16, max: 500 },
    Drain { consumers: 16, partitions: 16, max: 500 },
    Drain { consumers: 64, partitions: 64, max: 500 },
];

/// Runs every row `rounds` times, side by side, and prints what came out.
pub async fn run(mut options: Options) -> Outcome<()> {
    if options.quick {
        options.shorten();
    }
    if let Some(path) = &options.pgque_sql {
        options.pgque_text = Some(std::fs::read_to_string(path)?);
    }
    // Kept until the end, which is its end too.
    let _server = if options.server.is_empty() { Some(start(&mut options).await?) } else { None };
    let before = load()?;
    let mut figures = Figures::default();
    for round in 1..=options.rounds {
        say(&format!("round {round} of {}", options.rounds));
        rounds(&options, &mut figures).await?;
        // What was measured stays, whatever happens to the next round.
        if round < options.rounds {
            say(&report::figures(&figures));
        }
    }
    held::held(&options, &mut figures).await?;
    say(&report::figures(&figures));
    say(&report::targets(&figures));
    say(&format!("load before and after, over 1, 5 and 15 minutes: {before}; {}", load()?));
    Ok(())
}

async fn start(options: &mut Options) -> Outcome<PrivateServer> {
    let settings = [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("shared_buffers", "512MB"),
        ("max_wal_size", "4GB"),
        ("max_connections", "200"),
    ];
    let server = PgServer::private_with(DEFAULT_MAJOR, &settings).await?;
    options.server = server.url("postgres");
    Ok(server)
}

async fn rounds(options: &Options, figures: &mut Figures) -> Outcome<()> {
    let with_pgque = options.pgque_text.is_some();
    let sides = |sides: &[Side]| -> Vec<Side> {
        let kept = |side: &&Side| with_pgque || !matches!(side, Side::Pgque | Side::PgqueLarge);
        sides.iter().filter(kept).copied().collect()
    };
    if options.has("send") {
        for side in sides(&[Side::Raw, Side::Sql, Side::Pgque, Side::Store, Side::Quiet, Side::ByName, Side::Skip]) {
            told("send", side, send::single(options, side, figures).await)?;
        }
        peer(options, "send", &["send", "8", &options.time.to_string()], figures).await?;
    }
    for size in [100, 1_000] {
        if options.has(&format!("send_batch {size}")) {
            for side in sides(&[Side::Raw, Side::Sql, Side::Pgque, Side::Store]) {
                told("send_batch", side, send::batches(options, side, size, figures).await)?;
            }
        }
    }
    for one in DRAINS {
        let is_wanted = !options.quick || (one.consumers < 16 && one.max == 100);
        if is_wanted && options.has(&one.title()) {
            for side in sides(&[Side::Sql, Side::Pgque, Side::PgqueLarge, Side::Store, Side::ByName, Side::Skip]) {
                if side != Side::Skip || one.consumers < 16 {
                    told(&one.title(), side, drain::drain(options, side, one, figures).await)?;
                }
            }
        }
    }
    if options.has("lease") {
        for side in [Side::Sql, Side::Store] {
            told(lease::ROW, side, lease::lease(options, side, figures).await)?;
        }
        peer(options, lease::ROW, &["lease", &options.leases.to_string()], figures).await?;
    }
    if options.has("wake") {
        told("wake", Side::Store, worker::wake(options, figures).await)?;
    }
    if options.has("takeover") {
        told("takeover", Side::Store, worker::takeover(options, figures).await)?;
    }
    if options.has("idle") {
        told("idle", Side::Store, worker::idle(options, figures).await)?;
    }
    Ok(())
}

/// An error with what was measured, and with its causes: the driver's own text is only that the server refused.
fn told(row: &str, side: Side, done: Outcome<()>) -> Outcome<()> {
    done.map_err(|error| {
        let mut text = format!("`{row}` of {side} cannot be measured: {error}");
        let mut cause = error.source();
        while let Some(inner) = cause {
            text += &format!(": {inner}");
            cause = inner.source();
        }
        text.into()
    })
}

/// Runs the program of the peer for one row and keeps what it prints.
async fn peer(options: &Options, row: &str, words: &[&str], figures: &mut Figures) -> Outcome<()> {
    let Some(program) = &options.peer else { return Ok(()) };
    let bed = Bed::make(&options.server).await?;
    let mut command = tokio::process::Command::new(program);
    command.args(words).env(URL, bed.url()).stdin(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true);
    let output = command.output().await?;
    let text = String::from_utf8(output.stdout)?;
    if !output.status.success() {
        return Err(text.trim().into());
    }
    for line in text.lines() {
        let (measure, value) = line.split_once(' ').ok_or("a measure is a name and a number")?;
        figures.add_value(&key(row, Side::Alkstore, measure), value.parse()?);
    }
    Ok(())
}

/// What else the machine does.
fn load() -> Outcome<String> {
    let text = std::fs::read_to_string("/proc/loadavg")?;
    Ok(text.split(' ').take(3).collect::<Vec<_>>().join(" "))
}
