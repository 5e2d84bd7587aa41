//! What an idle consumer notices and costs, and how soon a dead owner's slot goes on.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fencepost::runtime::{
    BatchHandler, CancellationToken, Done, HandlerError, SlotContext, Worker, WorkerSettings, async_trait,
};
use fencepost::{Batch, BatchSize, NewMessage, Queues, Slots, Ttl, WorkerName};
use fencepost_bench_rows::Outcome;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::bed::{Bed, Counted, claim, told};
use super::{Figures, Options, Side, URL, key};

/// What a process is started for that holds a slot until it is killed.
pub const HOLD: &str = "hold-postgres";

/// The lease of the owner that is killed.
const TTL: Duration = Duration::from_secs(2);

/// Tells how old each message was.
struct Ages(UnboundedSender<Duration>);

#[async_trait]
impl BatchHandler for Ages {
    async fn handle(&self, batch: &Batch, _: &SlotContext) -> Result<Done, HandlerError> {
        for message in &batch.messages {
            let made: u64 = String::from_utf8_lossy(&message.payload).parse().unwrap_or_default();
            let _ = self.0.send(now().saturating_sub(Duration::from_nanos(made)));
        }
        Ok(Done::Ack)
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn stamped() -> Outcome<NewMessage> {
    Ok(NewMessage::new(now().as_nanos().to_string())?)
}

/// From before a send, with its commit, until the handler of an idle worker, which is another store: `p50` and `p99` in ms.
pub async fn wake(options: &Options, figures: &mut Figures) -> Outcome<()> {
    let bed = Bed::make(&options.server).await?;
    let (store, path) = bed.store(16, 1).await?;
    let (sender, _) = bed.store(16, 1).await?;
    let (told, mut heard) = unbounded_channel();
    let settings = WorkerSettings::new(path.clone(), WorkerName::new("bench")?);
    let worker = Worker::join(Arc::new(store), settings, Ages(told)).await?;
    let stop = CancellationToken::new();
    let running = tokio::spawn(worker.run(stop.clone()));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut ages = Vec::new();
    for number in 0..options.wakes {
        // Uneven, so that no poll is in step with them.
        tokio::time::sleep(Duration::from_micros(15_000 + number * 3_709 % 10_000)).await;
        sender.send(&path.queue, stamped()?).await?;
    }
    while (ages.len() as u64) < options.wakes {
        let age = tokio::time::timeout(Duration::from_secs(10), heard.recv()).await?.ok_or("the worker ended")?;
        ages.push(age.as_secs_f64() * 1e3);
    }
    stop.cancel();
    running.await?;
    ages.sort_by(f64::total_cmp);
    figures.add_value(&key("wake", Side::Store, "p50"), ages[ages.len() / 2]);
    figures.add_value(&key("wake", Side::Store, "p99"), ages[ages.len() * 99 / 100]);
    Ok(())
}

/// Holds the only slot of the consumer until the process is killed.
pub async fn hold() -> Outcome<()> {
    let store = fencepost::postgres::PostgresStore::open(&std::env::var(URL)?, Default::default()).await?;
    let path = fencepost::ConsumerPath::new("bench", "worker")?;
    let settings = WorkerSettings::new(path, WorkerName::new("killed")?).ttl(Ttl::new(TTL)?);
    let worker = Worker::join(Arc::new(store), settings, Ages(unbounded_channel().0)).await?;
    worker.run(CancellationToken::new()).await;
    Ok(())
}

/// From the kill of an owner, a process, until the first message is handled by who waits for the slot: `late`, ms beyond the TTL.
pub async fn takeover(options: &Options, figures: &mut Figures) -> Outcome<()> {
    let bed = Bed::make(&options.server).await?;
    let (store, path) = bed.store(16, 1).await?;
    let mut owner = tokio::process::Command::new(std::env::current_exe()?)
        .arg(HOLD)
        .env(URL, bed.url())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let claimed = async {
        while !store.slot_status(Some(&path.queue)).await?.iter().any(|slot| slot.state.owner.is_some()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Outcome::Ok(())
    };
    tokio::time::timeout(Duration::from_secs(10), claimed).await??;
    let (told, mut heard) = unbounded_channel();
    let settings = WorkerSettings::new(path.clone(), WorkerName::new("heir")?).ttl(Ttl::new(TTL)?);
    let worker = Worker::join(Arc::new(store.clone()), settings, Ages(told)).await?;
    let stop = CancellationToken::new();
    let running = tokio::spawn(worker.run(stop.clone()));
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    owner.start_kill()?;
    let killed = Instant::now();
    store.send(&path.queue, stamped()?).await?;
    tokio::time::timeout(TTL * 5, heard.recv()).await?.ok_or("the worker ended")?;
    figures.add_value(&key("takeover", Side::Store, "after"), killed.elapsed().as_secs_f64() * 1e3);
    stop.cancel();
    running.await?;
    owner.wait().await?;
    Ok(())
}

/// What polls that find nothing cost the server, a poll: `tuples` read, `xids` and `wal`; and a worker without work: its share of a
/// core in `%` and its statements a second.
pub async fn idle(options: &Options, figures: &mut Figures) -> Outcome<()> {
    let bed = Bed::make(&options.server).await?;
    let (store, path) = bed.store(16, 1).await?;
    let token = claim(&store, &path, 0).await?;
    store.receive(&token, BatchSize::default()).await?;
    told().await;
    let mut counts = Vec::new();
    let polls = 1_000;
    for _ in 0..3 {
        let (before, started) = (bed.counted().await?, Instant::now());
        for _ in 0..polls {
            if store.receive(&token, BatchSize::default()).await?.is_some() {
                return Err("the queue is empty".into());
            }
        }
        let spent = started.elapsed();
        told().await;
        counts.push((spent, bed.counted().await?.since(before)));
    }
    // The least, since what the server does by itself meanwhile, in any of its databases, is counted too.
    let least = |value: fn(&(Duration, Counted)) -> f64| counts.iter().map(value).fold(f64::INFINITY, f64::min);
    figures.add_value(&key("empty poll", Side::Store, "ms"), least(|one| one.0.as_secs_f64() * 1e3) / f64::from(polls));
    figures.add_value(&key("empty poll", Side::Store, "xids"), least(|one| one.1.xids));
    figures.add_value(&key("empty poll", Side::Store, "wal"), least(|one| one.1.wal));
    store.release_slot(&token).await?;

    let settings = WorkerSettings::new(path, WorkerName::new("idle")?);
    let worker = Worker::join(Arc::new(store), settings, Ages(unbounded_channel().0)).await?;
    let stop = CancellationToken::new();
    let running = tokio::spawn(worker.run(stop.clone()));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (before, processor, started) = (bed.counted().await?, processor_time(), Instant::now());
    tokio::time::sleep(Duration::from_millis(options.idle)).await;
    let (share, spent) = ((processor_time() - processor).as_secs_f64(), started.elapsed().as_secs_f64());
    let counted = bed.counted().await?.since(before);
    stop.cancel();
    running.await?;
    figures.add_value(&key("idle worker", Side::Store, "% of a core"), share / spent * 100.0);
    figures.add_value(&key("idle worker", Side::Store, "statements/s"), counted.commits / spent);
    figures.add_value(&key("idle worker", Side::Store, "xids/s"), counted.xids / spent);
    Ok(())
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
