//! Messages that were set aside: taken out of a slot's range of the log, because they come again, wait for another one, or are not to
//! be handed out. What an ack makes of each is decided here, once for every engine.

use crate::{BatchId, BatchSize, DeadCause, Disposition, Timestamp};

/// Where a message stands that was set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// It comes again when this is past.
    Due(Timestamp),
    /// It waits for an earlier message of its key.
    Parked,
    /// It was in a batch of which one message is suspected, and comes in a batch of its own.
    Alone,
    /// It is in the open batch, and nothing was decided about it.
    Batch,
    /// It was in the open batch, and this was decided about it.
    Decided(Disposition),
    /// It is not to be handed out, and goes when the cursor passes it.
    Void,
}

/// A message that was set aside, without its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aside {
    /// Where it stands.
    pub place: Place,
    /// How often it failed.
    pub failures: u32,
    /// How often it was handed out in batches that are closed.
    pub deliveries: u32,
}

/// What an ack makes of a message that was set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It is finished.
    Gone,
    /// It is a dead letter, given up in this attempt.
    Dead {
        /// Why.
        cause: DeadCause,
        /// The attempt.
        attempts: u32,
    },
    /// It stays. One that is due under a policy that pauses its key parks every later message of the key, and is parked itself behind
    /// an earlier one.
    Stays(Aside),
}

impl Aside {
    /// A message as it is set aside for the first time.
    pub const fn new(place: Place) -> Self {
        Self { place, failures: 0, deliveries: 0 }
    }

    /// Whether it is in the open batch, decided about or not.
    pub const fn is_in_batch(&self) -> bool {
        matches!(self.place, Place::Batch | Place::Decided(_))
    }

    /// Whether an ack that covers it settles it.
    pub const fn is_settled_by_ack(&self) -> bool {
        self.is_in_batch() || matches!(self.place, Place::Void)
    }

    /// What the ack of a batch that was handed out `deliveries` times makes of it.
    pub fn settle(self, deliveries: u32) -> Settled {
        let Aside { place, failures, .. } = self;
        let stays = |place, failures| {
            Settled::Stays(Aside { place, failures, deliveries: self.deliveries.saturating_add(deliveries) })
        };
        match place {
            Place::Batch | Place::Void => Settled::Gone,
            Place::Decided(Disposition::Retry { due_at }) => stays(Place::Due(due_at), failures.saturating_add(1)),
            Place::Decided(Disposition::Snooze { due_at }) => stays(Place::Due(due_at), failures),
            Place::Decided(Disposition::Withdrawn) => stays(Place::Parked, failures),
            Place::Decided(Disposition::Dead(cause)) => Settled::Dead { cause, attempts: failures.saturating_add(1) },
            Place::Due(_) | Place::Parked | Place::Alone => Settled::Stays(self),
        }
    }
}

/// How many of `again` messages that come again go into a batch of at most `max` beside `new` ones: at most half, rounded up, and
/// all that fit when no new one waits. With a `max` of 1 both take turns, by the number of the batch.
pub fn share_of_again(max: BatchSize, again: usize, new: usize, batch: BatchId) -> usize {
    let max = max.get() as usize;
    let most = match (new, max) {
        (0, _) => max,
        (_, 1) => usize::from(batch.get() % 2 == 1),
        _ => max.div_ceil(2),
    };
    again.min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(max: i64) -> BatchSize {
        BatchSize::new(max).unwrap()
    }

    fn batch(id: i64) -> BatchId {
        BatchId::new(id).unwrap()
    }

    #[test]
    fn what_comes_again_takes_half_beside_new_ones_and_all_without() {
        assert_eq!(share_of_again(size(5), 9, 9, batch(1)), 3);
        assert_eq!(share_of_again(size(5), 2, 9, batch(1)), 2);
        assert_eq!(share_of_again(size(5), 9, 0, batch(1)), 5);
        assert_eq!(share_of_again(size(5), 9, 1, batch(1)), 3);
        assert_eq!([1, 2, 3].map(|id| share_of_again(size(1), 9, 9, batch(id))), [1, 0, 1]);
    }

    #[test]
    fn only_a_retry_spends_an_attempt() {
        let due_at = Timestamp::from_micros(9);
        let settled = |place| Aside { place, failures: 2, deliveries: 3 }.settle(2);
        let stays = |place, failures| Settled::Stays(Aside { place, failures, deliveries: 5 });
        assert_eq!(settled(Place::Decided(Disposition::Retry { due_at })), stays(Place::Due(due_at), 3));
        assert_eq!(settled(Place::Decided(Disposition::Snooze { due_at })), stays(Place::Due(due_at), 2));
        assert_eq!(settled(Place::Decided(Disposition::Withdrawn)), stays(Place::Parked, 2));
        let dead = Settled::Dead { cause: DeadCause::Crashes, attempts: 3 };
        assert_eq!(settled(Place::Decided(Disposition::Dead(DeadCause::Crashes))), dead);
        assert_eq!(settled(Place::Batch), Settled::Gone);
        assert_eq!(settled(Place::Parked), Settled::Stays(Aside { place: Place::Parked, failures: 2, deliveries: 3 }));
    }
}
