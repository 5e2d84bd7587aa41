//! The scheduler: how late it fires, alone and many at once, what its leader costs while nothing is due, and how soon another one leads.

mod firing;
mod idle;
mod takeover;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use fencepost::runtime::Scheduling;
use fencepost::{Partitions, QueueName, Schedule, ScheduleName, Spec, Store};
use fencepost_bench_rows::{Outcome, say};
use fencepost_test_support::{DEFAULT_MAJOR, PgServer};

use crate::figures::Figures;
pub use takeover::{LEAD, lead};

/// What to measure, and for how long.
#[derive(Args)]
pub struct Options {
    /// Rounds, of which the median is taken.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Only rows with this in their name: many, one, idle, takeover.
    #[arg(long, default_value = "")]
    only: String,
    /// How many schedules are due in the same second.
    #[arg(long, default_value_t = 1_000)]
    many: usize,
    /// How many seconds are looked at for each figure of lateness.
    #[arg(long, default_value_t = 30)]
    seconds: usize,
    /// How often a leader is killed, and how often stopped, in a round.
    #[arg(long, default_value_t = 5)]
    takeovers: u32,
    /// A folder on the disk that counts.
    #[arg(long, default_value = ".")]
    folder: PathBuf,
}

/// Measures on both engines, and prints tables.
pub async fn run(options: &Options) -> Outcome<()> {
    let settings = [("fsync", "on"), ("synchronous_commit", "on"), ("shared_buffers", "512MB")];
    let server = PgServer::private_with(DEFAULT_MAJOR, &settings).await?;
    let mut figures = Figures::default();
    for _ in 0..options.rounds {
        let folder = tempfile::tempdir_in(&options.folder)?;
        let wanted = |row: &str| row.contains(&options.only);
        for engine in ["sqlite", "postgres"] {
            for row in ["many", "one", "takeover"] {
                if wanted(row) {
                    let database = server.database().await?;
                    let url = match engine {
                        "sqlite" => file(folder.path(), row),
                        _ => database.url(),
                    };
                    match row {
                        "many" => firing::measure(&url, options.many, 2, options.seconds, &mut figures).await?,
                        "one" => firing::measure(&url, 1, 1, options.seconds, &mut figures).await?,
                        _ => takeover::measure(&url, options.takeovers, &mut figures).await?,
                    }
                }
            }
        }
        if wanted("idle") {
            idle::measure(&server, &mut figures).await?;
        }
    }
    say("| row | median | least | most |\n| --- | ---: | ---: | ---: |");
    for row in figures.rows() {
        if let Some((least, median, most)) = figures.spread(row) {
            say(&format!("| {row} | {median:.2} | {least:.2} | {most:.2} |"));
        }
    }
    Ok(())
}

fn file(folder: &Path, row: &str) -> String {
    format!("sqlite:{}", folder.join(row).display())
}

/// A store with a queue and so many schedules that fire whenever the second is a multiple of `every`.
async fn laid(url: &str, many: usize, spec: &str) -> Outcome<Store> {
    let store = fencepost::open(url).create(true).await?;
    let queue = QueueName::new("bench")?;
    store.create_queue(&queue, Partitions::default()).await?;
    let spec = Spec::parse(spec)?;
    let mut puts = tokio::task::JoinSet::new();
    for number in 0..many {
        let name = ScheduleName::new(format!("bench-{number:05}"))?;
        let schedule = Schedule::new(name, spec.clone(), queue.clone()).payload(vec![b'x'; 200])?;
        let store = store.contract();
        puts.spawn(async move { store.put(&schedule).await });
        if puts.len() == 8 {
            puts.join_next().await.ok_or("one was spawned")???;
        }
    }
    while let Some(put) = puts.join_next().await {
        put??;
    }
    Ok(store)
}

/// Since 1970, by this host's clock, which the stores' are too.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
