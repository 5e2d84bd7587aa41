//! Messages set aside in the model: what a receive picks, what is decided about messages of a batch, and what an ack makes of it.

use std::sync::Arc;

use fencepost_core::slot::{Aside, Found, OpenBatch, Place, Settled, SlotState, share_of_again};
use fencepost_core::{
    BatchSize, ConsumerPath, DeadLetter, Disposition, FailureText, Key, MessageId, Position, Result, SlotIndex,
    Timestamp, UNPARKED,
};

use crate::MemTransaction;
use crate::state::{Consumer, Queue, Stored};

/// A message that a consumer set aside.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) stored: Arc<Stored>,
    pub(crate) aside: Aside,
    /// What its last failure said.
    pub(crate) reason: Option<FailureText>,
}

impl Kept {
    pub(crate) fn new(stored: Arc<Stored>, place: Place) -> Self {
        Self { stored, aside: Aside::new(place), reason: None }
    }
}

/// What a receive would hand out or pass over.
pub(crate) struct Picked {
    pub(crate) found: Found,
    /// Messages that come again, to be in the batch.
    again: Vec<Position>,
    /// Messages of the log that are not to be handed out now.
    set_aside: Vec<(Position, Place)>,
}

impl Picked {
    pub(crate) const NOTHING: Picked = Picked { found: Found::Nothing, again: Vec::new(), set_aside: Vec::new() };
}

/// How much of a slot's open batch an ack covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it.
    Whole,
    /// Up to a message.
    Through(Position),
}

impl Consumer {
    /// What was set aside of a slot's partitions, by position.
    pub(crate) fn aside_of(&self, slot: SlotIndex) -> impl Iterator<Item = (Position, &Kept)> {
        self.aside
            .iter()
            .filter(move |(_, kept)| self.count.owner(kept.stored.partition) == slot)
            .map(|(position, kept)| (*position, kept))
    }

    /// Whether a message must wait: an earlier one of its key was set aside and comes again.
    pub(crate) fn waits(&self, position: Position, key: Option<&Key>) -> bool {
        let Some(key) = key else { return false };
        self.policy.pauses()
            && self
                .aside
                .range(..position)
                .any(|(_, kept)| kept.stored.key() == Some(key) && kept.aside.place != Place::Void)
    }
}

impl MemTransaction<'_> {
    /// What a receive on a slot without an open batch finds.
    pub(crate) fn pick(&self, path: &ConsumerPath, slot: SlotIndex, max: BatchSize) -> Result<Picked> {
        let (queue, consumer) = (self.state().queue(&path.queue)?, self.state().consumer(path)?);
        let state = self.state().slot(path, slot)?;
        if queue.paused {
            return Ok(Picked::NOTHING);
        }
        Ok(match state.isolated {
            Some(end) => self.pick_alone(queue, consumer, slot, state.cursor, end),
            None => self.pick_batch(queue, consumer, slot, state, max),
        })
    }

    /// The next message of what a suspected batch was: first those that had come again, then those of the log.
    fn pick_alone(
        &self,
        queue: &Queue,
        consumer: &Consumer,
        slot: SlotIndex,
        cursor: Position,
        end: Position,
    ) -> Picked {
        let one = |through, again, set_aside| Picked {
            found: Found::Messages { through, size: 1, plain: false },
            again,
            set_aside,
        };
        let mut set_aside = Vec::new();
        for (position, kept) in consumer.aside_of(slot).filter(|(_, kept)| kept.aside.place == Place::Alone) {
            if !consumer.waits(position, kept.stored.key()) {
                return one(cursor, vec![position], set_aside);
            }
            set_aside.push((position, Place::Parked));
        }
        let rest = queue.waiting(consumer.count, slot, cursor).take_while(|(position, _)| *position <= end);
        for (position, stored) in rest.filter(|(position, _)| !consumer.aside.contains_key(position)) {
            if !consumer.waits(position, stored.key()) {
                return one(position, Vec::new(), set_aside);
            }
            set_aside.push((position, Place::Parked));
        }
        Picked { found: Found::Skipped(end.max(cursor)), again: Vec::new(), set_aside }
    }

    fn pick_batch(
        &self,
        queue: &Queue,
        consumer: &Consumer,
        slot: SlotIndex,
        state: &SlotState,
        max: BatchSize,
    ) -> Picked {
        let due = |kept: &Kept| matches!(kept.aside.place, Place::Due(at) if at <= self.now());
        let mut again: Vec<Position> = consumer
            .aside_of(slot)
            .filter(|(_, kept)| due(kept))
            .map(|(position, _)| position)
            .take(max.get() as usize)
            .collect();

        let (mut fresh, mut set_aside) = (Vec::new(), Vec::new());
        // How far the cursor goes with each number of fresh messages: over everything before the next one that was looked at.
        let mut through = vec![state.cursor];
        for (position, stored) in queue.waiting(consumer.count, slot, state.cursor) {
            if fresh.len() == max.get() as usize {
                break;
            }
            match self.place_of(consumer, position, stored) {
                Some(place) => set_aside.push((position, place)),
                None => {
                    fresh.push(position);
                    through.push(position);
                }
            }
            *through.last_mut().expect("it has the cursor") = position;
        }
        again.truncate(share_of_again(max, again.len(), fresh.len(), state.next_batch()));
        let taken = fresh.len().min(max.get() as usize - again.len());
        let through = through[taken];
        set_aside.retain(|(position, _)| *position <= through);
        let size = (again.len() + taken) as u32;
        let found = match size {
            0 if through > state.cursor => Found::Skipped(through),
            0 => Found::Nothing,
            _ => Found::Messages { through, size, plain: again.is_empty() && set_aside.is_empty() },
        };
        Picked { found, again, set_aside }
    }

    /// Where a message of the log is put that is not to be handed out now.
    fn place_of(&self, consumer: &Consumer, position: Position, stored: &Stored) -> Option<Place> {
        let expired = stored.expires_at.is_some_and(|at| at <= self.now());
        if expired || consumer.after_id.is_some_and(|id| stored.id.get() <= id) {
            return Some(Place::Void);
        }
        consumer.waits(position, stored.key()).then_some(Place::Parked)
    }

    /// Records what was picked.
    pub(crate) fn set_aside(&mut self, path: &ConsumerPath, picked: Picked) -> Result<()> {
        if picked.again.is_empty() && picked.set_aside.is_empty() {
            return Ok(());
        }
        let log = self.state().queue(&path.queue)?.log.clone();
        let consumer = self.change().consumer_mut(path)?;
        for position in picked.again {
            consumer.aside.entry(position).and_modify(|kept| kept.aside.place = Place::Batch);
        }
        for (position, place) in picked.set_aside {
            match consumer.aside.get_mut(&position) {
                Some(kept) => kept.aside.place = place,
                None => drop(consumer.aside.insert(position, Kept::new(log[&position].clone(), place))),
            }
        }
        Ok(())
    }

    /// The messages of an open batch that have no disposition, by position.
    pub(crate) fn undecided(
        &self,
        path: &ConsumerPath,
        slot: SlotIndex,
        open: OpenBatch,
    ) -> Result<Vec<(Position, Kept)>> {
        let (queue, consumer) = (self.state().queue(&path.queue)?, self.state().consumer(path)?);
        let cursor = self.state().slot(path, slot)?.cursor;
        let again = consumer.aside_of(slot).filter(|(_, kept)| kept.aside.place == Place::Batch);
        let fresh = queue
            .log
            .range(..=open.through)
            .filter(|(position, stored)| **position > cursor && consumer.count.owner(stored.partition) == slot)
            .filter(|(position, _)| !consumer.aside.contains_key(position))
            .map(|(position, stored)| (*position, Kept::new(stored.clone(), Place::Batch)));
        let mut messages: Vec<_> = again.map(|(position, kept)| (position, kept.clone())).chain(fresh).collect();
        messages.sort_by_key(|(position, _)| *position);
        Ok(messages)
    }

    /// The messages of an open batch that have a disposition, by position.
    pub(crate) fn decided(&self, path: &ConsumerPath, slot: SlotIndex) -> Result<Vec<(Position, Kept)>> {
        let state = self.state().slot(path, slot)?;
        let of_batch = |position| state.batch.is_some_and(|open| state.settles(position, open.through));
        let consumer = self.state().consumer(path)?;
        let decided = consumer
            .aside_of(slot)
            .filter(|(position, kept)| matches!(kept.aside.place, Place::Decided(_)) && of_batch(*position));
        Ok(decided.map(|(position, kept)| (position, kept.clone())).collect())
    }

    /// Writes down what was decided about a message of the open batch.
    pub(crate) fn decide(
        &mut self,
        path: &ConsumerPath,
        position: Position,
        kept: &Kept,
        disposition: Disposition,
        reason: Option<&FailureText>,
    ) -> Result<()> {
        let mut kept = kept.clone();
        kept.aside.place = Place::Decided(disposition);
        kept.reason = reason.cloned().or(kept.reason);
        self.change().consumer_mut(path)?.aside.insert(position, kept);
        Ok(())
    }

    /// Puts the other messages of a suspected batch that had come again behind the first one.
    pub(crate) fn isolate(
        &mut self,
        path: &ConsumerPath,
        slot: SlotIndex,
        first: Position,
        deliveries: u32,
    ) -> Result<()> {
        let consumer = self.change().consumer_mut(path)?;
        let count = consumer.count;
        for (position, kept) in &mut consumer.aside {
            let other = *position != first && count.owner(kept.stored.partition) == slot;
            if other && kept.aside.place == Place::Batch {
                kept.aside.place = Place::Alone;
                kept.aside.deliveries += deliveries;
            }
        }
        Ok(())
    }

    /// Makes true what was decided about the messages that an ack covers, and lets go what waited for them.
    pub(crate) fn settle(
        &mut self,
        path: &ConsumerPath,
        slot: SlotIndex,
        extent: Extent,
        deliveries: u32,
    ) -> Result<()> {
        let state = self.state().slot(path, slot)?.clone();
        let covered = |position: Position, place: Place| match extent {
            Extent::Through(end) => position <= end,
            Extent::Whole => place == Place::Batch || state.settles(position, state.cursor),
        };
        let consumer = self.state().consumer(path)?;
        let policy = consumer.policy;
        let settled: Vec<(Position, Kept)> = consumer
            .aside_of(slot)
            .filter(|(position, kept)| kept.aside.is_settled_by_ack() && covered(*position, kept.aside.place))
            .map(|(position, kept)| (position, kept.clone()))
            .collect();
        let now = self.now();
        let mut touched: Vec<Key> = Vec::new();
        for (position, kept) in settled {
            touched.extend(kept.stored.key().cloned());
            let consumer = self.change().consumer_mut(path)?;
            match kept.aside.settle(deliveries) {
                Settled::Gone => drop(consumer.aside.remove(&position)),
                Settled::Dead { cause, attempts } => {
                    consumer.aside.remove(&position);
                    let Stored { id, ref message, created_at, .. } = *kept.stored;
                    let letter = DeadLetter {
                        path: path.clone(),
                        id,
                        position,
                        key: message.get_key().cloned(),
                        kind: message.get_kind().clone(),
                        payload: message.payload().to_vec(),
                        headers: message.headers().clone(),
                        created_at,
                        attempts,
                        cause,
                        reason: kept.reason.clone(),
                        died_at: now,
                    };
                    let stored = kept.stored.clone();
                    let dead = &mut self.change().queue_mut(&path.queue)?.dead;
                    dead.insert((path.consumer.clone(), id), (letter, stored));
                }
                Settled::Stays(aside) => {
                    let comes_again = matches!(aside.place, Place::Due(_));
                    let behind = consumer.waits(position, kept.stored.key());
                    let place = if behind { Place::Parked } else { aside.place };
                    let aside = Aside { place, ..aside };
                    let key = kept.stored.key().cloned();
                    consumer.aside.insert(position, Kept { aside, ..kept });
                    // Also of one that is behind another itself: a replay puts a head before what was let go already.
                    if policy.pauses() && key.is_some() && comes_again {
                        consumer.park_behind(position, key.as_ref());
                    }
                }
            }
        }
        if policy.pauses() {
            touched.iter().try_for_each(|key| self.unpark(path, key))?;
        }
        Ok(())
    }

    /// Lets the parked messages of a key come again when the first of them waits for nothing any more.
    fn unpark(&mut self, path: &ConsumerPath, key: &Key) -> Result<()> {
        let consumer = self.state().consumer(path)?;
        let parked: Vec<Position> = consumer
            .aside
            .iter()
            .filter(|(_, kept)| kept.stored.key() == Some(key) && kept.aside.place != Place::Void)
            .take_while(|(_, kept)| kept.aside.place == Place::Parked)
            .map(|(position, _)| *position)
            .take(UNPARKED)
            .collect();
        if parked.is_empty() {
            return Ok(());
        }
        let consumer = self.change().consumer_mut(path)?;
        for position in parked {
            consumer.aside.entry(position).and_modify(|kept| kept.aside.place = Place::Due(Timestamp::default()));
        }
        Ok(())
    }
}

impl Consumer {
    /// Parks the later messages of a key that were to come again.
    fn park_behind(&mut self, head: Position, key: Option<&Key>) {
        for (position, kept) in &mut self.aside {
            if *position > head && kept.stored.key() == key && matches!(kept.aside.place, Place::Due(_)) {
                kept.aside.place = Place::Parked;
            }
        }
    }

    /// When the next message of a slot comes again.
    pub(crate) fn next_due(&self, slot: SlotIndex) -> Option<Timestamp> {
        let due = self.aside_of(slot).filter_map(|(_, kept)| match kept.aside.place {
            Place::Due(at) => Some(at),
            _ => None,
        });
        due.min()
    }

    /// How many messages were set aside of a slot: those that come again, and those that wait for them.
    pub(crate) fn counts(&self, slot: SlotIndex) -> (u64, u64) {
        let places = || self.aside_of(slot).map(|(_, kept)| kept.aside.place);
        let parked = |place: &Place| matches!(place, Place::Parked | Place::Decided(Disposition::Withdrawn));
        let retrying = |place: &Place| {
            matches!(place, Place::Due(_) | Place::Decided(Disposition::Retry { .. } | Disposition::Snooze { .. }))
        };
        (places().filter(retrying).count() as u64, places().filter(parked).count() as u64)
    }

    /// Messages of a slot that are neither acked nor dead.
    pub(crate) fn lag(&self, queue: &Queue, slot: SlotIndex, cursor: Position) -> u64 {
        let fresh = queue.waiting(self.count, slot, cursor).filter(|(position, _)| !self.aside.contains_key(position));
        let aside = self.aside_of(slot).filter(|(_, kept)| kept.aside.place != Place::Void);
        (fresh.count() + aside.count()) as u64
    }

    /// The first of them: its position, and when it was sent.
    pub(crate) fn first_waiting(
        &self,
        queue: &Queue,
        slot: SlotIndex,
        cursor: Position,
    ) -> Option<(Position, Timestamp)> {
        let mut fresh =
            queue.waiting(self.count, slot, cursor).filter(|(position, _)| !self.aside.contains_key(position));
        let aside = self.aside_of(slot).find(|(_, kept)| kept.aside.place != Place::Void);
        let fresh = fresh.next().map(|(position, stored)| (position, stored.created_at));
        let aside = aside.map(|(position, kept)| (position, kept.stored.created_at));
        [fresh, aside].into_iter().flatten().min()
    }
}

/// The message that a call names, among the messages of an open batch.
pub(crate) fn named(messages: &[(Position, Kept)], id: MessageId) -> Option<&(Position, Kept)> {
    messages.iter().find(|(_, kept)| kept.stored.id == id)
}
