//! A long run at half load: workers are killed and stopped all the time, and nothing may grow. What was seen is drawn.

mod effects;
mod plot;
mod samples;
mod sender;
mod workers;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use fencepost::postgres::{PostgresOptions, PostgresStore};
use fencepost::{
    AcquireLease, Acquired, ConsumerPath, Consumers, CreateConsumer, FailurePolicy, HolderName, LeaseName, Leases,
    OnFailure, Partitions, Queues, SlotCount,
};
use fencepost_bench_rows::{Outcome, say};
use fencepost_test_support::{DEFAULT_MAJOR, PgServer};
use tokio::task::JoinHandle;

use samples::{Sample, Series};
use sender::Sender;
use workers::Workers;
pub use workers::{WORKER, work};

/// What to run, and for how long.
#[derive(Args)]
pub struct Options {
    /// How long it runs at half load, in seconds.
    #[arg(long, default_value_t = 3_600)]
    time: u64,
    /// How long it runs as fast as it can before, to learn what half load is, in seconds.
    #[arg(long, default_value_t = 30)]
    calibrate: u64,
    /// Worker processes. One of them is never killed, so that its memory can be watched.
    #[arg(long, default_value_t = 3)]
    workers: usize,
    /// Between two kills, in seconds; every fourth is a stop for twice the TTL instead.
    #[arg(long, default_value_t = 30)]
    kill: u64,
    /// Between two samples, in seconds.
    #[arg(long, default_value_t = 10)]
    every: u64,
    /// Seed of what is killed when.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the samples and their graph are written, as `soak.csv` and `soak.svg`.
    #[arg(long, default_value = ".")]
    folder: PathBuf,
}

/// Runs it, on a server of its own, and says what grew.
///
/// # Errors
/// When a message was lost, handled twice or out of its order, and when something grew.
pub async fn run(options: Options) -> Outcome<()> {
    let settings =
        [("fsync", "on"), ("synchronous_commit", "on"), ("shared_buffers", "256MB"), ("max_wal_size", "1GB")];
    let server = PgServer::private_with(DEFAULT_MAJOR, &settings).await?;
    let url = server.url("postgres");
    let store = PostgresStore::open(&url, PostgresOptions::default().create(true)).await?;
    let path = path()?;
    store.create_queue(&path.queue, Partitions::default()).await?;
    let policy = FailurePolicy::default().on_failure(OnFailure::Pause).backoff(Duration::from_millis(200))?;
    store.create_consumer(&CreateConsumer::ordered(path.clone(), SlotCount::new(4)?).policy(policy)).await?;
    let client = store.client().await?;
    effects::make(&client).await?;

    let sender = Arc::new(Sender::default());
    let sending = tokio::spawn(sender.clone().run(store.clone(), path.queue.clone()));
    let leasing = tokio::spawn(lease(store.clone()));
    let mut workers = Workers::start(&url, options.workers, options.seed).await?;

    let rate = calibrate(&sender, &client, Duration::from_secs(options.calibrate)).await? / 2.0;
    say(&format!("half load is {rate:.0} messages a second"));
    sender.limit(rate);

    let (started, end) = (Instant::now(), Duration::from_secs(options.time));
    let mut series = Series::default();
    let (mut next_kill, mut next_sample) = (Duration::from_secs(options.kill), Duration::ZERO);
    while started.elapsed() < end {
        tokio::time::sleep(next_kill.min(next_sample).saturating_sub(started.elapsed())).await;
        let at = started.elapsed();
        if at >= next_sample {
            next_sample += Duration::from_secs(options.every);
            let sample = Sample::take(&client, at, &sender, workers.steady()).await?;
            say(&sample.line());
            series.add(sample);
            std::fs::write(options.folder.join("soak.csv"), series.csv())?;
        }
        if at >= next_kill {
            next_kill += Duration::from_secs(options.kill);
            workers.strike().await?;
        }
        if sending.is_finished() || leasing.is_finished() {
            return ended(sending, leasing).await;
        }
    }
    sender.stop();
    sending.await??;
    leasing.abort();
    effects::wait_for(&client, sender.sent()).await?;
    std::fs::write(options.folder.join("soak.svg"), plot::svg(&series))?;
    say(&format!("{} messages, {} kills, {} stops", sender.sent(), workers.kills, workers.stops));
    effects::check(&client, &sender).await?;
    say(&series.verdict());
    store.close().await;
    drop(workers);
    series.judge()
}

fn path() -> Outcome<ConsumerPath> {
    Ok(ConsumerPath::new("soak", "worker")?)
}

/// What a task that should not have ended failed with.
async fn ended(sending: JoinHandle<Outcome<()>>, leasing: JoinHandle<Outcome<()>>) -> Outcome<()> {
    let done = if sending.is_finished() { sending.await } else { leasing.await };
    done??;
    Err("a task of the load ended".into())
}

/// Messages handled a second, with more waiting than can be handled.
async fn calibrate(
    sender: &Sender,
    client: &fencepost::postgres::tokio_postgres::Client,
    time: Duration,
) -> Outcome<f64> {
    tokio::time::sleep(time / 3).await;
    let (before, started) = (effects::done(client).await?, Instant::now());
    tokio::time::sleep(time * 2 / 3).await;
    let rate = (effects::done(client).await? - before) as f64 / started.elapsed().as_secs_f64();
    sender.limit(0.0);
    effects::wait_for(client, sender.sent()).await?;
    Ok(rate)
}

/// Takes and gives back leases of changing names all the time.
async fn lease(store: PostgresStore) -> Outcome<()> {
    for number in 0_u64.. {
        let lease = AcquireLease::new(LeaseName::new(format!("soak {}", number % 100))?, HolderName::new("soak")?);
        if let Acquired::Granted { token, .. } = store.acquire_lease(&lease).await? {
            store.renew_lease(&token, None).await?;
            store.release_lease(&token).await?;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
