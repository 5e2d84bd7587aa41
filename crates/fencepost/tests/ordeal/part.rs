//! The part of a worker process: effects and ack in one transaction, and failures by the message's own fate.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fencepost::runtime::{
    BatchHandler, CancellationToken, Done, HandlerError, SlotContext, Worker, WorkerSettings, async_trait,
};
use fencepost::sqlite::{SqliteOptions, SqliteStore, driver_error};
use fencepost::{Batch, BatchSize, ConsumerPath, Failure, FailureText, Message, Result, Ttl, WorkerName};

use crate::chaos::Fate;
use crate::puppet::say;

/// How long a slot stays with a worker that says nothing.
pub const TTL: Duration = Duration::from_secs(1);

pub fn path() -> ConsumerPath {
    ConsumerPath::new("ordeal", "workers").unwrap()
}

pub fn play(file: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(file, SqliteOptions::default()).await.unwrap();
        let name = WorkerName::new(format!("process {}", std::process::id())).unwrap();
        let settings = WorkerSettings::new(path(), name)
            .ttl(Ttl::new(TTL).unwrap())
            .max(BatchSize::new(16).unwrap())
            .poll(Duration::from_millis(50));
        let worker = Worker::join(Arc::new(store.clone()), settings, Records(store)).await.unwrap();
        say("joined");
        worker.run(CancellationToken::new()).await;
    });
}

/// Records every message that it finishes, with the ack.
struct Records(SqliteStore);

#[async_trait]
impl BatchHandler for Records {
    async fn handle(&self, batch: &Batch, slot: &SlotContext) -> std::result::Result<Done, HandlerError> {
        let mut finished: Vec<Message> = Vec::new();
        let mut withdrawn = Vec::new();
        for message in &batch.messages {
            if withdrawn.contains(&message.id) {
                continue;
            }
            match Fate::of(&message.payload, message.attempt) {
                Fate::Finishes => finished.push(message.clone()),
                Fate::Fails => withdrawn.extend(slot.nack(message.id, &Failure::default()).await?.withdrawn),
                Fate::IsRejected => slot.dead_letter(message.id, &FailureText::new("by its fate")?).await?,
            }
        }
        let (token, id) = (slot.token.clone(), batch.id);
        let recorded: Result<u32> = self
            .0
            .write(move |tx| {
                for message in finished {
                    let payload = String::from_utf8_lossy(&message.payload).into_owned();
                    tx.execute(
                        "INSERT INTO effect (id, payload, slot, epoch) VALUES (?1, ?2, ?3, ?4)",
                        (message.id.get(), payload, token.slot.get(), token.epoch.get()),
                    )
                    .map_err(driver_error)?;
                }
                tx.ack_in(&token, id)
            })
            .await;
        recorded?;
        Ok(Done::Acked)
    }
}
