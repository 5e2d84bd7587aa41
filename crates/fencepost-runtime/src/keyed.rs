//! From messages to batches: several messages at once, but one at a time per key, in order.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use fencepost_core::{Batch, Key, Message};
use tokio::task::JoinSet;

use crate::failure::{Unfinished, catching};
use crate::handler::{BatchHandler, Done, HandlerError, MessageHandler, SlotContext};

/// Runs a [`MessageHandler`] over the messages of a batch: up to a number of keys at once, one at a time per key. Messages
/// without a key order nothing and may run at any time.
#[derive(Debug)]
pub struct PerMessage<H> {
    handler: Arc<H>,
    concurrency: usize,
}

impl<H: MessageHandler> PerMessage<H> {
    /// Handles up to `concurrency` messages at once; 0 means 1.
    pub fn new(handler: H, concurrency: usize) -> Self {
        Self { handler: Arc::new(handler), concurrency: concurrency.max(1) }
    }
}

#[async_trait]
impl<H: MessageHandler> BatchHandler for PerMessage<H> {
    async fn handle(&self, batch: &Batch, slot: &SlotContext) -> Result<Done, HandlerError> {
        let mut waiting = sequences(&batch.messages).into_iter();
        let mut running = JoinSet::new();
        let mut ended = None;
        loop {
            while ended.is_none() && running.len() < self.concurrency {
                let Some(sequence) = waiting.next() else { break };
                running.spawn(run(self.handler.clone(), sequence, slot.clone()));
            }
            // Cancel, then join: what has begun is waited for, also when nothing more is begun.
            match running.join_next().await {
                None => break,
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) => ended = ended.or(Some(error)),
                Some(Err(panic)) => ended = ended.or_else(|| Some(panic.into())),
            }
        }
        ended.map_or(Ok(Done::Ack), Err)
    }
}

/// Runs the messages of one key. A failure is recorded at once, so that an heir of the batch does not run the message again, and
/// the next ones go on unless it withdrew them.
///
/// # Errors
/// What ends the whole batch: the slot is lost, or a failure could not be recorded.
async fn run<H: MessageHandler>(
    handler: Arc<H>,
    sequence: Vec<Message>,
    slot: SlotContext,
) -> Result<(), HandlerError> {
    let mut withdrawn = Vec::new();
    for message in sequence {
        if slot.cancelled.is_cancelled() {
            return Err(Unfinished::lost().into());
        }
        if withdrawn.contains(&message.id) {
            continue;
        }
        let Err(error) = catching(handler.handle(&message, &slot)).await else { continue };
        if slot.open.is_none() || slot.cancelled.is_cancelled() || slot.refusal(&error).is_some() {
            return Err(error);
        }
        tracing::warn!(id = %message.id, attempt = message.attempt, error = &*error as &dyn std::error::Error, "a message failed");
        withdrawn.extend(slot.record(message.id, &error).await.map_err(Unfinished::unrecorded)?);
    }
    Ok(())
}

/// The messages by key, in the order in which the keys first appear, each in message order; one sequence a message without key.
fn sequences(messages: &[Message]) -> Vec<Vec<Message>> {
    let mut sequences: Vec<Vec<Message>> = Vec::new();
    let mut of_key: HashMap<&Key, usize> = HashMap::new();
    for message in messages {
        let index = match &message.key {
            Some(key) => *of_key.entry(key).or_insert(sequences.len()),
            None => sequences.len(),
        };
        if index == sequences.len() {
            sequences.push(Vec::new());
        }
        sequences[index].push(message.clone());
    }
    sequences
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use fencepost_core::{
        BatchId, ConsumerPath, Epoch, Headers, MessageId, MessageKind, Position, SlotIndex, SlotToken, Timestamp,
    };
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn message(id: i64, key: Option<&str>) -> Message {
        Message {
            id: MessageId::new(id).unwrap(),
            position: Position::from_storage(id),
            key: key.map(|key| Key::new(key).unwrap()),
            kind: MessageKind::default(),
            payload: Vec::new(),
            headers: Headers::new(),
            attempt: 1,
            deliveries: 1,
            created_at: Timestamp::default(),
        }
    }

    fn batch(messages: Vec<Message>) -> Batch {
        Batch { id: BatchId::new(1).unwrap(), deliveries: 1, crashes: 0, messages }
    }

    fn slot() -> SlotContext {
        let path = ConsumerPath::new("q", "c").unwrap();
        let token = SlotToken { path, slot: SlotIndex::new(0).unwrap(), epoch: Epoch::new(1).unwrap() };
        SlotContext::unkept(token, CancellationToken::new())
    }

    /// Records what runs, and fails when two of one key run at once.
    #[derive(Default)]
    struct Recorder {
        running: Mutex<Vec<Option<Key>>>,
        finished: Mutex<Vec<i64>>,
        at_once: Mutex<usize>,
        fail_on: Option<i64>,
    }

    #[async_trait]
    impl MessageHandler for Arc<Recorder> {
        async fn handle(&self, message: &Message, _slot: &SlotContext) -> Result<(), HandlerError> {
            {
                let mut running = self.running.lock().unwrap();
                if message.key.is_some() && running.contains(&message.key) {
                    return Err("two of one key at once".into());
                }
                running.push(message.key.clone());
                let mut at_once = self.at_once.lock().unwrap();
                *at_once = running.len().max(*at_once);
            }
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            let mut running = self.running.lock().unwrap();
            let index = running.iter().position(|key| *key == message.key).unwrap();
            running.remove(index);
            if self.fail_on == Some(message.id.get()) {
                return Err("asked to fail".into());
            }
            self.finished.lock().unwrap().push(message.id.get());
            Ok(())
        }
    }

    #[tokio::test]
    async fn one_at_a_time_per_key_in_order_and_several_keys_at_once() {
        let recorder = Arc::new(Recorder::default());
        let keys = ["a", "b", "a", "c", "b", "a"];
        let messages = keys.iter().enumerate().map(|(id, key)| message(id as i64 + 1, Some(key))).collect();
        let handler = PerMessage::new(recorder.clone(), 3);
        assert_eq!(handler.handle(&batch(messages), &slot()).await.unwrap(), Done::Ack);
        let finished = recorder.finished.lock().unwrap().clone();
        for sequence in [vec![1, 3, 6], vec![2, 5], vec![4]] {
            let order: Vec<_> = finished.iter().copied().filter(|id| sequence.contains(id)).collect();
            assert_eq!(order, sequence);
        }
        assert_eq!(*recorder.at_once.lock().unwrap(), 3);
    }

    #[tokio::test]
    async fn a_failure_stops_its_key_and_is_returned_after_what_runs_has_ended() {
        let recorder = Arc::new(Recorder { fail_on: Some(1), ..Recorder::default() });
        let messages = vec![message(1, Some("a")), message(2, Some("a")), message(3, None)];
        let handler = PerMessage::new(recorder.clone(), 2);
        let error = handler.handle(&batch(messages), &slot()).await.unwrap_err();
        assert_eq!(error.to_string(), "asked to fail");
        assert_eq!(*recorder.finished.lock().unwrap(), [3]);
    }

    #[tokio::test]
    async fn after_cancellation_nothing_more_is_begun() {
        let recorder = Arc::new(Recorder::default());
        let slot = slot();
        slot.cancelled.cancel();
        let handler = PerMessage::new(recorder.clone(), 2);
        assert!(handler.handle(&batch(vec![message(1, Some("a"))]), &slot).await.is_err());
        assert!(recorder.finished.lock().unwrap().is_empty());
    }
}
