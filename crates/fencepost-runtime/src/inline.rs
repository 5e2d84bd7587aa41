//! A handler run in the caller's own task, for tests and for jobs that end: everything there is, then back.

use std::sync::Arc;

use fencepost_core::refusal::no_consumer;
use fencepost_core::{
    BatchSize, ClaimSlot, ConsumerPath, Error, Kind, Nonce, Result, SlotGrant, SlotToken, Store, Ttl, WorkerName,
};
use tokio_util::sync::CancellationToken;

use crate::failure::{Unfinished, catching};
use crate::handler::{BatchHandler, Done, SlotContext};
use crate::worker::Report;

/// Runs a handler over everything that a consumer has to hand out now, in the caller's task: no renewals, no wake-ups, no waiting.
///
/// With the model engine and its manual clock a handler's whole life can be played through in a test, without a pause:
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use fencepost_core::*;
/// use fencepost_mem::MemStore;
/// use fencepost_runtime::*;
///
/// struct Flaky;
///
/// #[async_trait]
/// impl MessageHandler for Flaky {
///     async fn handle(&self, message: &Message, _slot: &SlotContext) -> Result<(), HandlerError> {
///         if message.attempt == 1 { Err("not yet".into()) } else { Ok(()) }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// let clock = Arc::new(ManualClock::default());
/// let store: Arc<dyn Store> = Arc::new(MemStore::new(clock.clone()));
/// let path = ConsumerPath::new("orders", "billing")?;
/// store.create_queue(&path.queue, Partitions::default()).await?;
/// store.create_consumer(&CreateConsumer::ordered(path.clone(), SlotCount::new(2)?)).await?;
/// store.send(&path.queue, NewMessage::new("paid")?).await?;
///
/// let inline = Inline::new(store, path, PerMessage::new(Flaky, 1));
/// assert_eq!(inline.run().await?.failed, 1);
/// assert_eq!(inline.run().await?.batches, 0, "not due yet");
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(inline.run().await?.messages, 1, "the second attempt");
/// # Ok(())
/// # }
/// ```
pub struct Inline<H> {
    store: Arc<dyn Store>,
    path: ConsumerPath,
    handler: H,
    ttl: Ttl,
    max: BatchSize,
}

impl<H: BatchHandler> Inline<H> {
    /// A handler of a consumer's messages, in batches of at most 100.
    pub fn new(store: Arc<dyn Store>, path: ConsumerPath, handler: H) -> Self {
        Self { store, path, handler, ttl: Ttl::DEFAULT, max: BatchSize::default() }
    }

    /// Sets how many messages a batch has at most.
    #[must_use]
    pub fn max(mut self, max: BatchSize) -> Self {
        self.max = max;
        self
    }

    /// Appends what is due, then claims slot after slot, handles what it has, and gives it back. Slots that others hold are left alone.
    ///
    /// # Errors
    /// What the store answered; `fenced` when a handler took longer than the TTL of 30 s and somebody took over.
    pub async fn run(&self) -> Result<Report> {
        let mut report = Report::default();
        let worker = WorkerName::new("inline")?;
        self.store.maintain(Some(&self.path.queue)).await?;
        let consumers = self.store.consumer_status(Some(&self.path.queue)).await?;
        let consumer = consumers.iter().find(|consumer| consumer.path == self.path);
        for slot in consumer.ok_or_else(|| no_consumer(&self.path))?.slots.slots() {
            let request = ClaimSlot::new(self.path.clone(), worker.clone()).ttl(self.ttl).nonce(Nonce::random()?);
            let Some(SlotGrant { token, .. }) = self.store.claim_slot(&request, slot).await? else { continue };
            let worked = self.work(&token, &mut report).await;
            // Whatever happened, the slot is not kept: an open batch goes to the next one.
            self.store.abandon_slot(&token).await?;
            worked?;
        }
        Ok(report)
    }

    async fn work(&self, token: &SlotToken, report: &mut Report) -> Result<()> {
        while let Some(batch) = self.store.receive(token, self.max).await? {
            let context = SlotContext::unkept(token.clone(), CancellationToken::new()).with(&self.store, batch.id);
            let handled = catching(self.handler.handle(&batch, &context)).await;
            let messages = batch.messages.len() as u64;
            let acked = match handled {
                Ok(Done::Acked) => messages,
                Ok(Done::Ack) => self.store.ack(token, batch.id).await?.into(),
                Err(error) if context.refusal(&error).is_some() || error.is::<Unfinished>() => {
                    return Err(error.downcast::<Error>().map_or_else(
                        |other| Error::new(Kind::Unavailable, "cannot finish the batch").caused_by(other),
                        |refusal| *refusal,
                    ));
                }
                Err(error) => {
                    context.record_batch(self.max, &error).await?;
                    self.store.ack(token, batch.id).await?.into()
                }
            };
            report.batches += 1;
            report.messages += acked;
            report.failed += messages - acked;
        }
        Ok(())
    }
}
