//! How keys map to partitions and partitions to slots. The mapping is part of the contract: the same in every engine and
//! language, and stable across versions.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

use crate::{Error, Key, Result};

/// The number of partitions of a queue: a power of two from 1 to 256, fixed at creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Partitions(u16);

impl Partitions {
    /// Checks and takes a number of partitions.
    ///
    /// # Errors
    /// `invalid_input` unless it is a power of two from 1 to 256.
    pub fn new(count: i64) -> Result<Self> {
        match u16::try_from(count) {
            Ok(count) if count.is_power_of_two() && count <= 256 => Ok(Self(count)),
            _ => Err(Error::invalid(
                format!("cannot use `{count}` as a number of partitions"),
                "allowed are 1, 2, 4, 8, 16, 32, 64, 128 and 256",
            )
            .with("argument", "partitions")),
        }
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// All of them, in order.
    pub fn all(self) -> impl Iterator<Item = Partition> + use<> {
        (0..self.0).map(Partition)
    }

    /// The partition of a key: the first byte of the SHA-256 of its UTF-8 bytes, modulo the number of partitions.
    ///
    /// Any language can compute it, and PostgreSQL does with `get_byte(sha256(convert_to(key, 'UTF8')), 0) % partitions`.
    ///
    /// ```
    /// use fencepost_core::{Key, Partitions};
    ///
    /// let partitions = Partitions::new(16).unwrap();
    /// assert_eq!(partitions.of_key(&Key::new("N14228").unwrap()).get(), 5);
    /// ```
    pub fn of_key(self, key: &Key) -> Partition {
        let first = Sha256::digest(key.as_str().as_bytes())[0];
        Partition(u16::from(first) % self.0)
    }
}

impl Default for Partitions {
    /// 16.
    fn default() -> Self {
        Self(16)
    }
}

impl fmt::Display for Partitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One partition of a queue, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(u16);

impl Partition {
    /// For engines: the partition that their storage calls `number`.
    ///
    /// # Errors
    /// `invalid_input` outside 0 ..= 255.
    pub fn from_storage(number: i64) -> Result<Self> {
        match u16::try_from(number) {
            Ok(number) if number < 256 => Ok(Self(number)),
            _ => Err(Error::invalid(format!("cannot use `{number}` as a partition"), "partitions are counted from 0")),
        }
    }

    /// The number, from 0.
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// Spreads messages without a key over the partitions, one after the other from a random start.
#[derive(Debug)]
pub struct RoundRobin(AtomicU64);

impl RoundRobin {
    /// A fresh round from a random start.
    ///
    /// Without randomness it starts at the first partition: the spread of one sender is even from anywhere.
    pub fn new() -> Self {
        let mut start = [0_u8; 8];
        let start = getrandom::fill(&mut start).map_or(0, |()| u64::from_le_bytes(start));
        Self(AtomicU64::new(start))
    }

    /// The partition of the next message without a key.
    pub fn next(&self, partitions: Partitions) -> Partition {
        Partition((self.0.fetch_add(1, Ordering::Relaxed) % u64::from(partitions.0)) as u16)
    }
}

impl Default for RoundRobin {
    fn default() -> Self {
        Self::new()
    }
}

/// The number of slots of an ordered consumer: 1 to the number of partitions of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotCount(u16);

impl SlotCount {
    /// Checks and takes a number of slots; that it does not exceed the partitions is checked where the queue is known.
    ///
    /// # Errors
    /// `invalid_input` outside 1 ..= 256.
    pub fn new(count: i64) -> Result<Self> {
        match u16::try_from(count) {
            Ok(count) if (1..=256).contains(&count) => Ok(Self(count)),
            _ => Err(Error::invalid(
                format!("cannot use `{count}` as a number of slots"),
                "allowed are 1 to the number of partitions of the queue, at most 256",
            )
            .with("argument", "slots")),
        }
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Checks that every slot gets at least one of the queue's partitions.
    ///
    /// # Errors
    /// `invalid_input` when there are more slots than partitions.
    pub fn fits(self, partitions: Partitions) -> Result<()> {
        if self.0 <= partitions.0 {
            return Ok(());
        }
        Err(Error::invalid(
            format!(
                "cannot give `{}` slots to a queue of {partitions} partitions: some would stay empty for ever",
                self.0
            ),
            format!("allowed are 1 to {partitions} slots; a queue with more partitions allows more"),
        )
        .with("argument", "slots")
        .with("partitions", partitions))
    }

    /// All slots, in order.
    pub fn slots(self) -> impl Iterator<Item = SlotIndex> {
        (0..self.0).map(SlotIndex)
    }

    /// The partitions that slot `slot` owns: those whose number leaves `slot` when divided by the number of slots.
    pub fn share(self, slot: SlotIndex, partitions: Partitions) -> impl Iterator<Item = Partition> {
        (slot.0..partitions.0).step_by(usize::from(self.0)).map(Partition)
    }

    /// The slot that owns `partition`.
    pub const fn owner(self, partition: Partition) -> SlotIndex {
        SlotIndex(partition.0 % self.0)
    }
}

impl fmt::Display for SlotCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One slot of an ordered consumer, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotIndex(u16);

impl SlotIndex {
    /// Checks and takes a slot's number; that the consumer has it is checked where the consumer is known.
    ///
    /// # Errors
    /// `invalid_input` outside 0 ..= 255.
    pub fn new(slot: i64) -> Result<Self> {
        match u16::try_from(slot) {
            Ok(slot) if slot < 256 => Ok(Self(slot)),
            _ => Err(Error::invalid(format!("cannot use `{slot}` as a slot"), "slots are counted from 0, at most 255")
                .with("argument", "slot")),
        }
    }

    /// The number, from 0.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for SlotIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn only_powers_of_two_up_to_256_are_partitions() {
        for good in [1, 2, 4, 8, 16, 32, 64, 128, 256] {
            assert!(Partitions::new(good).is_ok());
        }
        for bad in [0, -1, 3, 24, 257, 512, 10_000, i64::MAX] {
            assert_eq!(Partitions::new(bad).unwrap_err().kind(), Kind::InvalidInput, "{bad}");
        }
    }

    #[test]
    fn every_partition_has_exactly_one_slot() {
        for partitions in [1, 16, 64, 256] {
            let partitions = Partitions::new(partitions).unwrap();
            for count in 1..=partitions.get() {
                let count = SlotCount::new(i64::from(count)).unwrap();
                let mut owned: Vec<_> = count
                    .slots()
                    .flat_map(|slot| count.share(slot, partitions).map(move |partition| (partition, slot)))
                    .collect();
                assert!(owned.iter().all(|(partition, slot)| count.owner(*partition) == *slot));
                owned.sort_unstable();
                owned.dedup_by_key(|(partition, _)| *partition);
                assert_eq!(owned.len(), usize::from(partitions.get()));
            }
        }
    }

    #[test]
    fn slots_zero_negative_huge_and_above_partitions_are_refused() {
        for bad in [0, -1, 10_000] {
            assert_eq!(SlotCount::new(bad).unwrap_err().kind(), Kind::InvalidInput);
        }
        let error = SlotCount::new(17).unwrap().fits(Partitions::default()).unwrap_err();
        assert_eq!((error.kind(), error.fact("partitions")), (Kind::InvalidInput, Some("16")));
    }

    /// The hash is a contract with other languages: these values were computed with sha256sum.
    #[test]
    fn partition_of_a_key_is_stable() {
        let partitions = Partitions::new(256).unwrap();
        for (key, byte) in [("a", 0xca), ("N14228", 0xb5), ("注文", 0x26)] {
            assert_eq!(partitions.of_key(&Key::new(key).unwrap()).get(), byte, "{key}");
        }
    }

    #[test]
    fn messages_without_a_key_spread_evenly() {
        let (round, partitions) = (RoundRobin::new(), Partitions::default());
        let mut counts = [0; 16];
        for _ in 0..1_600 {
            counts[usize::from(round.next(partitions).get())] += 1;
        }
        assert_eq!(counts, [100; 16]);
    }
}
