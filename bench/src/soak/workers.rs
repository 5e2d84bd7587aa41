//! The worker processes, and what happens to them.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use fencepost::postgres::{PostgresOptions, PostgresStore, TransactionCalls};
use fencepost::runtime::{
    BatchHandler, CancellationToken, Done, HandlerError, SlotContext, Worker, WorkerSettings, async_trait,
};
use fencepost::{Batch, Ttl, WorkerName};
use fencepost_bench_rows::{Outcome, say};
use fencepost_test_support::Random;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use super::effects;

/// What a process is started for that is one worker until it is killed.
pub const WORKER: &str = "soak-postgres";

/// Names the variable with the URL.
const URL: &str = "DATABASE_URL";

const TTL: Duration = Duration::from_secs(3);

/// One message of so many fails at its first attempt.
const FAILING: i64 = 100;

/// The processes. The first is never killed.
pub struct Workers {
    url: String,
    children: Vec<Child>,
    random: Random,
    pub kills: u64,
    pub stops: u64,
}

impl Workers {
    pub async fn start(url: &str, count: usize, seed: u64) -> Outcome<Self> {
        let children = (0..count.max(2)).map(|_| spawn(url)).collect::<Outcome<_>>()?;
        Ok(Self { url: url.into(), children, random: Random::seeded(seed), kills: 0, stops: 0 })
    }

    /// The process that is never killed.
    pub fn steady(&self) -> Option<u32> {
        self.children[0].id()
    }

    /// Kills one of the others and starts another in its place, or stops it for longer than it owns anything.
    pub async fn strike(&mut self) -> Outcome<()> {
        let index = 1 + self.random.below(self.children.len() as u64 - 1) as usize;
        if (self.kills + self.stops) % 4 == 3 {
            self.stops += 1;
            let pid = self.children[index].id().and_then(|id| Pid::from_raw(id.cast_signed()));
            let pid = pid.ok_or("a worker ended by itself")?;
            kill_process(pid, Signal::STOP)?;
            // In a task of its own: the samples go on.
            tokio::spawn(async move {
                tokio::time::sleep(TTL * 2).await;
                if let Err(error) = kill_process(pid, Signal::CONT) {
                    say(&format!("a stopped worker cannot be continued: {error}"));
                }
            });
            return Ok(());
        }
        self.kills += 1;
        self.children[index].kill().await?;
        self.children[index] = spawn(&self.url)?;
        Ok(())
    }
}

fn spawn(url: &str) -> Outcome<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    Ok(command.arg(WORKER).env(URL, url).stdin(Stdio::null()).kill_on_drop(true).spawn()?)
}

/// Works until the process is killed.
pub async fn work() -> Outcome<()> {
    let store = PostgresStore::open(&std::env::var(URL)?, PostgresOptions::default()).await?;
    let settings = WorkerSettings::new(super::path()?, WorkerName::new(format!("soak {}", std::process::id()))?);
    let handler = Handler { store: store.clone() };
    let worker = Worker::join(Arc::new(store), settings.ttl(Ttl::new(TTL)?), handler).await?;
    worker.run(CancellationToken::new()).await;
    Ok(())
}

struct Handler {
    store: PostgresStore,
}

#[async_trait]
impl BatchHandler for Handler {
    async fn handle(&self, batch: &Batch, slot: &SlotContext) -> Result<Done, HandlerError> {
        let mut but = Vec::new();
        for message in &batch.messages {
            if message.attempt == 1 && message.id.get() % FAILING == 0 && !but.contains(&message.id) {
                but.push(message.id);
                but.extend(slot.record(message.id, &"planned".into()).await?);
            }
        }
        let mut client = self.store.client().await?;
        let transaction = client.transaction().await?;
        effects::apply(&transaction, &batch.messages, &but).await?;
        transaction.ack_in(&slot.token, batch.id).await?;
        transaction.commit_whole().await?;
        Ok(Done::Acked)
    }
}
