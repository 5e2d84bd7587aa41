//! The part of a worker process: effects and ack in one transaction, and failures by the message's own fate.

use std::path::Path;
use std::time::Duration;

use fencepost::runtime::{
    BatchHandler, CancellationToken, Done, HandlerError, SlotContext, Worker, WorkerSettings, async_trait,
};
use fencepost::{Batch, BatchSize, ConsumerPath, Failure, FailureText, Message, Ttl, WorkerName};

use crate::chaos::Fate;
use crate::ground::Ground;
use crate::puppet::say;

/// How long a slot stays with a worker that says nothing.
pub const TTL: Duration = Duration::from_secs(1);

pub fn path() -> ConsumerPath {
    ConsumerPath::new("ordeal", "workers").unwrap()
}

pub fn play(url: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let ground = Ground::open(url.to_str().expect("a url is UTF-8")).await;
        let name = WorkerName::new(format!("process {}", std::process::id())).unwrap();
        let settings = WorkerSettings::new(path(), name)
            .ttl(Ttl::new(TTL).unwrap())
            .max(BatchSize::new(16).unwrap())
            .poll(Duration::from_millis(50));
        let worker = Worker::join(ground.store(), settings, Records(ground)).await.unwrap();
        say("joined");
        worker.run(CancellationToken::new()).await;
    });
}

/// Records every message that it finishes, with the ack.
struct Records(Ground);

#[async_trait]
impl BatchHandler for Records {
    async fn handle(&self, batch: &Batch, slot: &SlotContext) -> Result<Done, HandlerError> {
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
        self.0.finish(finished, slot.token.clone(), batch.id).await?;
        Ok(Done::Acked)
    }
}
