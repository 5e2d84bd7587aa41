//! One store with what was seen of it: makes the calls, and tells their outcomes in words that mean the same for every store.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fencepost_core::slot::GrantOrigin;
use fencepost_core::{
    Batch, BatchId, BatchSize, ClaimSlot, ConsumerPath, CreateConsumer, Created, Delay, Epoch, Error, Failure,
    FailurePolicy, FailureText, IdempotencyKey, Key, Message, MessageId, NackOutcome, NewMessage, Nonce, OnFailure,
    OnceTtl, Partitions, Reason, Result, Retention, SlotCount, SlotGrant, SlotIndex, SlotToken, Start, Ttl, WorkerName,
};

use super::ledger::{Entry, Ledger};
use super::operation::{CONSUMERS, Named, Operation, Owner};
use super::{Side, view};

/// The partitions of the one queue.
const PARTITIONS: i64 = 4;

/// A batch, and the messages that it first had.
type HandedOut = (BatchId, Vec<MessageId>);

pub(super) struct World {
    pub(super) side: Side,
    begun: bool,
    /// Every message's number, in the order of sending.
    pub(super) labels: BTreeMap<MessageId, usize>,
    pub(super) sent: Vec<MessageId>,
    /// Every grant of a slot, oldest first.
    grants: BTreeMap<(u8, SlotIndex), Vec<SlotToken>>,
    /// Every batch of a slot, oldest first.
    batches: BTreeMap<(u8, SlotIndex), Vec<HandedOut>>,
    /// The keys of the messages that got their place when they were sent.
    ordered: BTreeMap<usize, String>,
    /// Messages that nobody may ever have been handed out.
    pub(super) expiring: BTreeSet<usize>,
    pub(super) ledgers: BTreeMap<u8, Ledger>,
    /// The first promise that was seen to be broken.
    pub(super) broken: Option<String>,
}

fn seconds(seconds: u8) -> Duration {
    Duration::from_secs(seconds.into())
}

fn delay(of: u8) -> Delay {
    Delay::new(seconds(of)).expect("a delay of seconds is one")
}

fn size(max: u8) -> BatchSize {
    BatchSize::new(max.into()).expect("a batch has a message")
}

fn index(slot: u8) -> SlotIndex {
    SlotIndex::new(slot.into()).expect("a slot's number is one")
}

fn reason() -> FailureText {
    FailureText::new("it broke").expect("a text is one")
}

pub(super) fn path(consumer: u8) -> ConsumerPath {
    ConsumerPath::new("q", format!("c{consumer}")).expect("names are names")
}

impl World {
    pub(super) fn new(side: Side) -> Self {
        let (labels, sent, grants, batches, ordered, expiring, ledgers, broken) = Default::default();
        Self { side, begun: false, labels, sent, grants, batches, ordered, expiring, ledgers, broken }
    }

    /// Makes the call, and tells its outcome and how everything stands after it.
    pub(super) async fn perform(&mut self, operation: &Operation) -> String {
        if !std::mem::replace(&mut self.begun, true) {
            let partitions = Partitions::new(PARTITIONS).expect("a power of two");
            self.side.store.create_queue(&path(0).queue, partitions).await.expect("the queue is new");
        }
        let operation = (self.side.understood)(operation.clone());
        let outcome = match self.call(&operation).await {
            Ok(outcome) => outcome,
            Err(error) => format!("error {}", error.code()),
        };
        let standing = self.standing().await.unwrap_or_else(|error: Error| format!("no status: {error:?}"));
        format!("{outcome}\n{standing}")
    }

    async fn call(&mut self, operation: &Operation) -> Result<String> {
        let (store, queue) = (self.side.store.clone(), path(0).queue);
        Ok(match operation.clone() {
            Operation::Create { consumer, slots, pause, max_attempts, max_crashes, after, latest } => {
                let policy = FailurePolicy::default()
                    .on_failure(if pause { OnFailure::Pause } else { OnFailure::Skip })
                    .max_attempts(max_attempts.into())?
                    .max_crashes(max_crashes.into())?;
                let start = if latest { Start::Latest } else { self.start(after) };
                let request = CreateConsumer::ordered(path(consumer), SlotCount::new(slots.into())?);
                let created = store.create_consumer(&request.start(start).policy(policy)).await?;
                if created == Created::Created {
                    self.ledgers.insert(consumer, Ledger::new(pause, self.sent.is_empty()));
                }
                format!("{created:?}")
            }
            Operation::Drop { consumer, force } => {
                let dropped = store.drop_consumer(&path(consumer), force).await?;
                self.ledgers.remove(&consumer);
                format!("{dropped:?}")
            }
            Operation::Send { key, delay: held_back, expires } => {
                let message = self.message(key).delay(delay(held_back));
                let message = match expires {
                    Some(after) => message.expires_in(delay(after)),
                    None => message,
                };
                let id = store.send(&queue, message).await?;
                if held_back == 0 {
                    self.ordered.insert(self.sent.len(), format!("k{key}"));
                }
                if expires.is_some() {
                    self.expiring.insert(self.sent.len());
                }
                format!("sent {}", self.label(id))
            }
            Operation::SendBatch { keys } => {
                let messages = keys.iter().map(|key| self.message(*key)).collect();
                let ids = store.send_batch(&queue, messages).await?;
                let mut labels = Vec::new();
                for (key, id) in keys.iter().zip(ids) {
                    self.ordered.insert(self.sent.len(), format!("k{key}"));
                    labels.push(self.label(id));
                }
                format!("sent {}", labels.join(" "))
            }
            Operation::SendOnce { once, body, ttl } => {
                let message = NewMessage::new(format!("once {body}"))?.key(Key::new(format!("k{once}"))?);
                let (key, ttl) = (IdempotencyKey::new(format!("o{once}"))?, OnceTtl::new(seconds(ttl))?);
                let sent = store.send_once(&queue, message, &key, ttl).await?;
                let label = self.label(sent.id);
                format!("{} {label}", if sent.deduplicated { "deduplicated" } else { "new" })
            }
            Operation::Claim { consumer, nonce, ttl } => {
                let nonce = if self.has_expired(consumer, nonce).await? { None } else { nonce };
                let grant = store.claim(&self.claim(consumer, nonce, ttl)?).await?;
                self.granted(consumer, grant)
            }
            Operation::ClaimSlot { consumer, slot, nonce, ttl } => {
                let grant = store.claim_slot(&self.claim(consumer, nonce, ttl)?, index(slot)).await?;
                self.granted(consumer, grant)
            }
            Operation::Receive { owner, max } => {
                let batch = store.receive(&self.token(owner), size(max)).await?;
                self.received(owner, batch.as_ref())
            }
            Operation::Ack { owner, batches_ago } => {
                let (batch, _) = self.batch(owner, batches_ago);
                format!("acked {}", store.ack(&self.token(owner), batch).await?)
            }
            Operation::AckThrough { owner, batches_ago, message } => {
                let (batch, id) = self.named(owner, batches_ago, message);
                format!("acked {}", store.ack_through(&self.token(owner), batch, id).await?)
            }
            Operation::AckReceive { owner, batches_ago, max } => {
                let (batch, _) = self.batch(owner, batches_ago);
                let both = store.ack_receive(&self.token(owner), batch, size(max)).await?;
                format!("acked {}, {}", both.acked, self.received(owner, both.next.as_ref()))
            }
            Operation::Nack { owner, batches_ago, message, after } => {
                let (batch, id) = self.named(owner, batches_ago, message);
                let failure = Failure::because(reason()).retry_after(delay(after));
                let nacked = store.nack(&self.token(owner), batch, id, &failure).await?;
                let outcome = match nacked.outcome {
                    NackOutcome::Retry { due_at } => format!("retry {:?}", due_at.since(store.now().await?)),
                    NackOutcome::Dead => "dead".to_owned(),
                };
                self.decided(owner, id, nacked.outcome != NackOutcome::Dead);
                nacked.withdrawn.iter().for_each(|id| self.decided(owner, *id, true));
                format!("{outcome} withdrawn {:?}", self.labels_of(&nacked.withdrawn))
            }
            Operation::Snooze { owner, batches_ago, message, after } => {
                let (batch, id) = self.named(owner, batches_ago, message);
                let withdrawn = store.snooze(&self.token(owner), batch, id, delay(after)).await?;
                self.decided(owner, id, true);
                withdrawn.iter().for_each(|id| self.decided(owner, *id, true));
                format!("snoozed withdrawn {:?}", self.labels_of(&withdrawn))
            }
            Operation::GiveUp { owner, batches_ago, message } => {
                let (batch, id) = self.named(owner, batches_ago, message);
                store.dead_letter(&self.token(owner), batch, id, &reason()).await?;
                self.decided(owner, id, false);
                "given up".to_owned()
            }
            Operation::Renew { owner } => format!("{:?}", store.renew_slot(&self.token(owner)).await?),
            Operation::Release { owner } => format!("{:?}", store.release_slot(&self.token(owner)).await?),
            Operation::Abandon { owner } => format!("{:?}", store.abandon_slot(&self.token(owner)).await?),
            Operation::Force { consumer, slot } => {
                store.force_release_slot(&path(consumer), index(slot), &Reason::new("it hangs")?).await?;
                "forced".to_owned()
            }
            Operation::Pause => format!("changed {}", store.pause_queue(&queue).await?),
            Operation::Resume => format!("changed {}", store.resume_queue(&queue).await?),
            Operation::Retain { seconds: kept } => {
                store.set_retention(&queue, Retention { consumed: seconds(kept), ..Retention::default() }).await?;
                "retained".to_owned()
            }
            Operation::Maintain => {
                while store.maintain(Some(&queue)).await? > 0 {}
                "maintained".to_owned()
            }
            Operation::Read { after, max } => {
                let page = store.read(&queue, self.start(after), size(max)).await?;
                format!("page {}", view::by_key(self, &page.messages))
            }
            Operation::Replay { consumer, message } => {
                let ids = message.map(|nth| vec![self.nth(nth)]);
                let dead = store.dead_letters(&path(consumer), None, BatchSize::default()).await?;
                let replayed = store.replay_dead_letters(&path(consumer), ids.as_deref()).await?;
                let chosen =
                    dead.iter().map(|letter| letter.id).filter(|id| ids.as_ref().is_none_or(|ids| ids.contains(id)));
                let labels = self.labels_of(&chosen.collect::<Vec<_>>());
                if let Some(ledger) = self.ledgers.get_mut(&consumer) {
                    labels.into_iter().for_each(|label| ledger.replayed(label));
                }
                format!("replayed {replayed}")
            }
            Operation::Purge { consumer, message } => {
                let ids = message.map(|nth| vec![self.nth(nth)]);
                format!("purged {}", store.purge_dead_letters(&path(consumer), ids.as_deref()).await?)
            }
            Operation::Pass { seconds: time } => {
                self.side.clock.advance(seconds(time));
                "passed".to_owned()
            }
        })
    }

    /// A message whose payload says how many were sent before it.
    fn message(&self, key: u8) -> NewMessage {
        let key = Key::new(format!("k{key}")).expect("a key is one");
        NewMessage::new(format!("after {}", self.sent.len())).expect("it is small").key(key)
    }

    fn label(&mut self, id: MessageId) -> String {
        if !self.labels.contains_key(&id) {
            self.labels.insert(id, self.sent.len());
            self.sent.push(id);
        }
        format!("m{}", self.labels[&id])
    }

    pub(super) fn labels_of(&self, ids: &[MessageId]) -> Vec<usize> {
        ids.iter().map(|id| self.labels.get(id).copied().unwrap_or(usize::MAX)).collect()
    }

    /// One of all messages sent, counted round.
    fn nth(&self, nth: u8) -> MessageId {
        let count = self.sent.len().max(1);
        self.sent.get(usize::from(nth) % count).copied().unwrap_or(MessageId::MAX)
    }

    fn start(&self, after: Option<u8>) -> Start {
        match after {
            Some(nth) if !self.sent.is_empty() => Start::AfterId(self.nth(nth).get()),
            _ => Start::Earliest,
        }
    }

    /// Whether a grant to the nonce has expired: its slot may be tried first or in its turn, which is not promised.
    async fn has_expired(&self, consumer: u8, nonce: Option<u8>) -> Result<bool> {
        let Some(nonce) = nonce.map(|nonce| Nonce::new(format!("n{nonce}"))).transpose()? else { return Ok(false) };
        let now = self.side.store.now().await?;
        let statuses = self.side.store.slot_status(None).await?;
        let owners =
            statuses.iter().filter(|told| told.path == path(consumer)).filter_map(|told| told.state.owner.as_ref());
        Ok(owners.into_iter().any(|owner| owner.nonce.as_ref() == Some(&nonce) && owner.expires_at <= now))
    }

    fn claim(&self, consumer: u8, nonce: Option<u8>, ttl: u8) -> Result<ClaimSlot> {
        let claim = ClaimSlot::new(path(consumer), WorkerName::new("w")?).ttl(Ttl::new(seconds(ttl))?);
        Ok(match nonce {
            Some(nonce) => claim.nonce(Nonce::new(format!("n{nonce}"))?),
            None => claim,
        })
    }

    fn granted(&mut self, consumer: u8, grant: Option<SlotGrant>) -> String {
        let Some(grant) = grant else { return "nothing".to_owned() };
        let of_slot = self.grants.entry((consumer, grant.token.slot)).or_default();
        if of_slot.last() != Some(&grant.token) {
            of_slot.push(grant.token.clone());
        }
        let origin = match grant.origin {
            GrantOrigin::Fresh => "fresh",
            GrantOrigin::Stored => "stored",
            GrantOrigin::TakeOver { .. } => "takeover",
            GrantOrigin::Convicted { .. } => "convicted",
            GrantOrigin::Inherited => "inherited",
        };
        format!("{origin} grant of slot {} with {}", grant.token.slot, view::open(grant.batch.as_ref()))
    }

    fn token(&self, owner: Owner) -> SlotToken {
        let slot = index(owner.slot);
        let grants = self.grants.get(&(owner.consumer, slot)).map_or(&[][..], Vec::as_slice);
        let ago = usize::from(owner.grants_ago) + 1;
        let token = grants.len().checked_sub(ago).and_then(|nth| grants.get(nth)).cloned();
        let nobody = Epoch::new(1).expect("1 is an epoch");
        token.unwrap_or(SlotToken { path: path(owner.consumer), slot, epoch: nobody })
    }

    pub(super) fn received(&mut self, owner: Owner, batch: Option<&Batch>) -> String {
        let Some(batch) = batch else { return "nothing".to_owned() };
        let known = self.batches.entry((owner.consumer, index(owner.slot))).or_default();
        if known.last().is_none_or(|(id, _)| *id != batch.id) {
            known.push((batch.id, batch.messages.iter().map(|message| message.id).collect()));
        }
        let Batch { deliveries, crashes, messages, .. } = batch;
        let handed_out: Vec<Entry> = messages.iter().map(|message| self.entry(message)).collect();
        if let Some(ledger) = self.ledgers.get_mut(&owner.consumer) {
            let broken = ledger.hand_out(&handed_out, |label| self.ordered.contains_key(&label));
            self.broken = self.broken.take().or(broken);
        }
        format!("batch {deliveries} deliveries {crashes} crashes {}", view::by_key(self, messages))
    }

    fn batch(&self, owner: Owner, ago: u8) -> (BatchId, &[MessageId]) {
        let known = self.batches.get(&(owner.consumer, index(owner.slot))).map_or(&[][..], Vec::as_slice);
        let found = known.len().checked_sub(usize::from(ago) + 1).and_then(|nth| known.get(nth));
        found.map_or((BatchId::MAX, &[][..]), |(id, messages)| (*id, messages))
    }

    fn named(&self, owner: Owner, ago: u8, message: Named) -> (BatchId, MessageId) {
        let (batch, messages) = self.batch(owner, ago);
        let id = match message {
            Named::OfBatch(nth) if !messages.is_empty() => messages[usize::from(nth) % messages.len()],
            Named::OfBatch(nth) | Named::Sent(nth) => self.nth(nth),
        };
        (batch, id)
    }

    fn entry(&self, message: &Message) -> Entry {
        let key = message.key.as_ref().map_or("", |key| key.as_str());
        Entry { label: self.labels_of(&[message.id])[0], key: key.to_owned() }
    }

    /// A message was decided about: it comes again, or never.
    fn decided(&mut self, owner: Owner, id: MessageId, comes_again: bool) {
        let label = self.labels_of(&[id])[0];
        let Some(ledger) = self.ledgers.get_mut(&owner.consumer) else { return };
        match self.ordered.get(&label) {
            Some(key) if comes_again => ledger.comes_again(label, key.clone()),
            _ => ledger.is_dead(label),
        }
    }

    pub(super) fn consumers() -> impl Iterator<Item = ConsumerPath> {
        (0..CONSUMERS).map(path)
    }
}
