//! alkstore-sqlite as the rows that it shares with fencepost see it, through its public interface alone.
//!
//! Its commits are `synchronous = NORMAL`, which nothing can change; everything else is as its options have it by default, but
//! that claims count for longer than any row takes.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use alkstore::{EnqueueOpts, JobHandle, Queue, QueueOpts, Store, WakeReceiver};
use alkstore_sqlite::SqliteOpts;
use fencepost_bench_rows::{Acks, Consumer, FILL, Outcome, Subject, Synchronous, message, run, say};
use serde_json::Value;

const QUEUE: &str = "bench";

const WORKER: &str = "bench";

/// How often an idle worker looks without being woken: as often as one of fencepost does.
const POLL: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run::<Alkstore>(&words).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

#[derive(Clone)]
struct Alkstore {
    store: Arc<dyn Store>,
    queue: Arc<dyn Queue>,
}

impl Subject for Alkstore {
    type Consumer = Claimant;

    async fn open(file: &Path, synchronous: Synchronous) -> Outcome<Self> {
        if synchronous != Synchronous::Normal {
            return Err("alkstore-sqlite commits with `synchronous = NORMAL` and nothing else".into());
        }
        let file = file.to_str().ok_or("the path is not UTF-8")?;
        let store: Arc<dyn Store> = alkstore_sqlite::open(file, SqliteOpts::default())?.into();
        let opts = QueueOpts { visibility_timeout_s: 3_600, ..QueueOpts::default() };
        let queue = store.queue(QUEUE, opts).await?.into();
        Ok(Self { store, queue })
    }

    async fn send(&self, message: String) -> Outcome<()> {
        self.queue.enqueue(Value::String(message), EnqueueOpts::default()).await?;
        Ok(())
    }

    async fn fill(&self, count: u64) -> Outcome<()> {
        for begin in (0..count).step_by(FILL as usize) {
            let mut transaction = self.store.begin_tx().await?;
            for _ in begin..count.min(begin + FILL) {
                transaction.enqueue_tx(QUEUE, EnqueueOpts::default(), Value::String(message())).await?;
            }
            transaction.commit().await?;
        }
        Ok(())
    }

    async fn consumer(&self, acks: Acks) -> Outcome<Claimant> {
        if acks != Acks::Apart {
            return Err("alkstore-sqlite has no call that acks and claims".into());
        }
        let wakes = self.store.listen(QUEUE).await?;
        Ok(Claimant { queue: self.queue.clone(), claimed: Vec::new(), wakes })
    }

    async fn maintain(&self) -> Outcome<()> {
        // Its acks delete.
        Ok(())
    }

    async fn idle(&self) -> Outcome<()> {
        let mut consumer = self.consumer(Acks::Apart).await?;
        loop {
            if consumer.take(100).await?.is_empty() {
                consumer.wakes.recv_timeout(POLL).await?;
            }
        }
    }
}

/// Somebody who claims and listens.
struct Claimant {
    queue: Arc<dyn Queue>,
    claimed: Vec<Box<dyn JobHandle>>,
    wakes: Box<dyn WakeReceiver>,
}

impl Consumer for Claimant {
    async fn receive(&mut self, max: u32) -> Outcome<Vec<String>> {
        self.claimed = if max == 1 {
            self.queue.claim_one(WORKER).await?.into_iter().collect()
        } else {
            self.queue.claim_batch(WORKER, max.into()).await?
        };
        Ok(self.claimed.iter().map(|job| job.job().payload_as()).collect::<Result<_, _>>()?)
    }

    async fn ack(&mut self) -> Outcome<()> {
        if self.claimed.len() > 1 {
            let ids: Vec<i64> = self.claimed.drain(..).map(|job| job.job().id).collect();
            self.queue.ack_batch(&ids).await?;
        } else if let Some(job) = self.claimed.pop() {
            job.ack().await?;
        }
        Ok(())
    }

    async fn wait(&mut self) -> Outcome<()> {
        self.wakes.recv().await.map(drop).ok_or_else(|| "the store was closed".into())
    }
}
