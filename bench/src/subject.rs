//! fencepost as the rows that it shares with its peers see it.

use std::path::Path;

use fencepost::runtime::{
    BatchHandler, CancellationToken, Done, HandlerError, SlotContext, Worker, WorkerSettings, async_trait,
};
use fencepost::sqlite::{SqliteOptions, SqliteStore, Synchronous as Sync};
use fencepost::{
    Batch, BatchId, BatchSize, ClaimSlot, ConsumerPath, Consumers, CreateConsumer, Key, NewMessage, Partitions, Queues,
    SlotCount, SlotToken, Slots, Topic, WakeReceiver, Wakeups, WorkerName,
};
use fencepost_bench_rows::{Acks, Consumer, FILL, Outcome, Subject, Synchronous, message};

/// How many keys the messages of a backlog have.
const KEYS: u64 = 1_000;

/// A queue of 16 partitions and a consumer with one slot.
#[derive(Clone)]
pub struct Fencepost {
    store: SqliteStore,
    path: ConsumerPath,
}

impl Subject for Fencepost {
    type Consumer = Owner;

    async fn open(file: &Path, synchronous: Synchronous) -> Outcome<Self> {
        let synchronous = match synchronous {
            Synchronous::Full => Sync::Full,
            Synchronous::Normal => Sync::Normal,
        };
        let store = SqliteStore::open(file, SqliteOptions::default().create(true).synchronous(synchronous)).await?;
        let path = ConsumerPath::new("bench", "worker")?;
        store.create_queue(&path.queue, Partitions::default()).await?;
        store.create_consumer(&CreateConsumer::ordered(path.clone(), SlotCount::new(1)?)).await?;
        Ok(Self { store, path })
    }

    async fn send(&self, message: String) -> Outcome<()> {
        self.store.send(&self.path.queue, NewMessage::new(message)?.key(Key::new("key")?)).await?;
        Ok(())
    }

    async fn fill(&self, count: u64) -> Outcome<()> {
        for begin in (0..count).step_by(FILL as usize) {
            let keyed = |number| Ok(NewMessage::new(message())?.key(Key::new(format!("k{:05}", number % KEYS))?));
            let batch = (begin..count.min(begin + FILL)).map(keyed).collect::<Outcome<_>>()?;
            self.store.send_batch(&self.path.queue, batch).await?;
        }
        Ok(())
    }

    async fn consumer(&self, acks: Acks) -> Outcome<Owner> {
        let claim = ClaimSlot::new(self.path.clone(), WorkerName::new("bench")?);
        let slot = self.store.claim(&claim).await?.ok_or("the slot is free")?;
        let wakes = self.store.wakes(&Topic::Messages(self.path.queue.clone()));
        Ok(Owner { store: self.store.clone(), token: slot.token, acks, open: None, wakes })
    }

    async fn maintain(&self) -> Outcome<()> {
        while self.store.maintain(Some(&self.path.queue)).await? > 0 {}
        Ok(())
    }

    async fn idle(&self) -> Outcome<()> {
        let settings = WorkerSettings::new(self.path.clone(), WorkerName::new("bench")?);
        let worker = Worker::join(std::sync::Arc::new(self.store.clone()), settings, Nothing).await?;
        worker.run(CancellationToken::new()).await;
        Ok(())
    }
}

/// The owner of the slot.
pub struct Owner {
    store: SqliteStore,
    token: SlotToken,
    acks: Acks,
    /// What is acked next.
    open: Option<BatchId>,
    wakes: WakeReceiver,
}

impl Consumer for Owner {
    async fn receive(&mut self, max: u32) -> Outcome<Vec<String>> {
        let max = BatchSize::new(max.into())?;
        let batch = match self.open.take() {
            Some(open) => self.store.ack_receive(&self.token, open, max).await?.next,
            None => self.store.receive(&self.token, max).await?,
        };
        let Some(batch) = batch else { return Ok(Vec::new()) };
        self.open = Some(batch.id);
        let texts = batch.messages.into_iter().map(|message| String::from_utf8(message.payload));
        Ok(texts.collect::<Result<_, _>>()?)
    }

    async fn ack(&mut self) -> Outcome<()> {
        if self.acks == Acks::Apart
            && let Some(open) = self.open.take()
        {
            self.store.ack(&self.token, open).await?;
        }
        Ok(())
    }

    async fn wait(&mut self) -> Outcome<()> {
        Ok(self.wakes.woken().await?)
    }
}

/// Handles what never comes.
struct Nothing;

#[async_trait]
impl BatchHandler for Nothing {
    async fn handle(&self, _: &Batch, _: &SlotContext) -> Result<Done, HandlerError> {
        Ok(Done::Ack)
    }
}
