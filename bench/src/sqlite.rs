//! The SQLite engine beside prepared inserts into the same table by the same binding.
//!
//! Crash contract of every row: what was counted survives a power cut (WAL, synchronous FULL), except that one transaction of
//! 100,000 raw inserts is durable only as a whole.

use std::path::Path;
use std::time::{Duration, Instant};

use fencepost::sqlite::rusqlite::Connection;
use fencepost::{
    BatchSize, ClaimSlot, ConsumerPath, CreateConsumer, Key, NewMessage, Partitions, SlotCount, Store, WorkerName,
};
use fencepost_bench_rows::{Outcome, say};
use tempfile::TempDir;

use crate::figures::{Figures, timed};

const PAYLOAD: usize = 200;
const KEYS: u64 = 1_000;
const SINGLES: u64 = 2_000;
const GROUPED: u64 = 64_000;
const BATCHED: u64 = 100_000;

const RAW_ONE: &str = "raw insert, one a commit";
const RAW_64: &str = "raw insert, 64 a commit";
const RAW_ALL: &str = "raw insert, one transaction";
const SEND_1: &str = "send, 1 caller";
const SEND_64: &str = "send, 64 callers";
const SEND_BATCH: &str = "send_batch(1,000)";
const DEPTH_1K: &str = "receive(100) + ack, messages, depth 1k";
const DEPTH_100K: &str = "receive(100) + ack, messages, depth 100k";

const INSERT: &str = "
INSERT INTO fencepost_message (position, queue_id, partition, key, kind, payload, headers, created_at)
VALUES (?1, 1, ?2, ?3, 'default', ?4, NULL, ?5)";

/// Runs every row `rounds` times, interleaved, on fresh files in `folder`.
pub async fn run(rounds: u32, folder: &Path) -> Outcome<()> {
    let mut figures = Figures::default();
    for round in 1..=rounds {
        say(&format!("round {round} of {rounds}"));
        raw(&mut figures, folder).await?;
        send(&mut figures, folder).await?;
        for (row, depth, take) in [(DEPTH_1K, 1_000, 900), (DEPTH_100K, 100_000, 10_000)] {
            drain(&mut figures, folder, row, depth, take).await?;
        }
    }
    say(&figures.table());
    let mut ratios = String::from("| ratio | |\n| --- | ---: |\n");
    ratios += &figures.ratio("send, 1 caller / raw, one a commit", SEND_1, RAW_ONE);
    ratios += &figures.ratio("send, 64 callers / raw, 64 a commit", SEND_64, RAW_64);
    ratios += &figures.ratio("send_batch(1,000) / raw, one transaction (target 0.7)", SEND_BATCH, RAW_ALL);
    ratios += &figures.ratio("depth 100k / depth 1k (target 0.8 to 1.2)", DEPTH_100K, DEPTH_1K);
    say(&ratios);
    Ok(())
}

struct Fresh {
    store: Store,
    path: ConsumerPath,
    folder: TempDir,
}

async fn fresh(folder: &Path) -> Outcome<Fresh> {
    let folder = tempfile::tempdir_in(folder)?;
    let store = fencepost::open(format!("sqlite:{}", folder.path().join("bench.db").display())).create(true).await?;
    let path = ConsumerPath::new("bench", "worker")?;
    store.create_queue(&path.queue, Partitions::default()).await?;
    Ok(Fresh { store, path, folder })
}

fn message(number: u64) -> Result<NewMessage, fencepost::Error> {
    Ok(NewMessage::new(vec![b'x'; PAYLOAD])?.key(Key::new(format!("k{:05}", number % KEYS))?))
}

/// Prepared inserts of the same rows into the same table, with partitions computed as sends do.
async fn raw(figures: &mut Figures, folder: &Path) -> Outcome<()> {
    let fresh = fresh(folder).await?;
    fresh.store.close().await;
    let connection = Connection::open(fresh.folder.path().join("bench.db"))?;
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 4000")?;
    let mut position = 0;
    for (row, count, group) in [(RAW_ONE, SINGLES, 1), (RAW_64, GROUPED, 64), (RAW_ALL, BATCHED, BATCHED)] {
        let started = Instant::now();
        let mut statement = connection.prepare_cached(INSERT)?;
        for begin in (0..count).step_by(group as usize) {
            connection.execute_batch("BEGIN IMMEDIATE")?;
            for number in begin..(begin + group).min(count) {
                position += 1;
                let message = message(number)?;
                let key = message.get_key().ok_or("a key was set")?;
                let partition = Partitions::default().of_key(key).get();
                statement.execute((position, partition, key.as_str(), message.payload(), position))?;
            }
            connection.execute_batch("COMMIT")?;
        }
        figures.add(row, count, started.elapsed());
    }
    Ok(())
}

async fn send(figures: &mut Figures, folder: &Path) -> Outcome<()> {
    let fresh = fresh(folder).await?;
    let (store, queue) = (&fresh.store, &fresh.path.queue);
    let time = timed(async {
        for number in 0..SINGLES {
            store.send(queue, message(number)?).await?;
        }
        Ok::<_, fencepost::Error>(())
    });
    figures.add(SEND_1, SINGLES, time.await?);
    figures.add(SEND_64, GROUPED, callers(store.clone(), &fresh.path, 64).await?);

    let batches: Vec<Vec<NewMessage>> = (0..BATCHED / 1_000)
        .map(|batch| (0..1_000).map(|number| message(batch * 1_000 + number)).collect())
        .collect::<Result<_, _>>()?;
    let time = timed(async {
        for batch in batches {
            store.send_batch(queue, batch).await?;
        }
        Ok::<_, fencepost::Error>(())
    });
    figures.add(SEND_BATCH, BATCHED, time.await?);
    store.close().await;
    Ok(())
}

/// `callers` tasks that each send one durable message after the other.
async fn callers(store: Store, path: &ConsumerPath, callers: u64) -> Outcome<Duration> {
    let started = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let (store, queue) = (store.clone(), path.queue.clone());
            tokio::spawn(async move {
                for number in 0..GROUPED / callers {
                    store.send(&queue, message(caller * 31 + number)?).await?;
                }
                Ok::<_, fencepost::Error>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(started.elapsed())
}

/// Batches of 100 from a queue that is `depth` deep, received and acked, `take` messages in all.
async fn drain(figures: &mut Figures, folder: &Path, row: &'static str, depth: u64, take: u64) -> Outcome<()> {
    let fresh = fresh(folder).await?;
    let store = &fresh.store;
    for begin in (0..depth).step_by(1_000) {
        let batch: Vec<NewMessage> = (begin..begin + 1_000).map(message).collect::<Result<_, _>>()?;
        store.send_batch(&fresh.path.queue, batch).await?;
    }
    store.create_consumer(&CreateConsumer::ordered(fresh.path.clone(), SlotCount::new(1)?)).await?;
    let claim = ClaimSlot::new(fresh.path.clone(), WorkerName::new("bench")?);
    let slot = store.claim(&claim).await?.ok_or("the slot is free")?;
    let mut taken = 0;
    let started = Instant::now();
    while taken < take {
        let batch = store.receive(&slot.token, BatchSize::default()).await?.ok_or("messages wait")?;
        taken += batch.messages.len() as u64;
        store.ack(&slot.token, batch.id).await?;
    }
    figures.add(row, taken, started.elapsed());
    store.close().await;
    Ok(())
}
