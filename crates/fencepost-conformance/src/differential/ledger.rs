//! What one consumer was handed out, checked against the promises that hold for every store: nothing is lost, and the order of a key
//! holds.

use std::collections::{BTreeMap, BTreeSet};

/// A message as the ledger knows it: its number in the order of sending, and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) label: usize,
    pub(super) key: String,
}

/// The ledger of one consumer from its first message on.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pauses: bool,
    /// Whether the consumer was there before the first message, so that all of them are for it.
    complete: bool,
    handed_out: BTreeSet<usize>,
    /// The highest message of each key that was handed out.
    highest: BTreeMap<String, usize>,
    /// What has to come again before later messages of its key, under a policy that pauses the key.
    waiting: BTreeMap<usize, String>,
}

impl Ledger {
    pub(super) fn new(pauses: bool, complete: bool) -> Self {
        Self { pauses, complete, ..Self::default() }
    }

    /// Messages were handed out, in this order. Returns the promise that this breaks, if one is. `ordered` tells which messages got
    /// their place when they were sent.
    pub(super) fn hand_out(&mut self, batch: &[Entry], ordered: impl Fn(usize) -> bool) -> Option<String> {
        let mut broken = None;
        for entry in batch.iter().filter(|entry| ordered(entry.label)) {
            self.waiting.remove(&entry.label);
            let before = |(label, key): &(&usize, &String)| **label < entry.label && **key == entry.key;
            let in_batch = |label: usize| batch.iter().any(|other| other.label == label);
            if let Some((label, _)) = self.waiting.iter().filter(before).find(|(label, _)| !in_batch(**label)) {
                broken = Some(format!("m{} was handed out while m{label} of its key comes again", entry.label));
            }
            let highest = self.highest.entry(entry.key.clone()).or_insert(entry.label);
            if self.handed_out.insert(entry.label) && entry.label < *highest {
                broken =
                    Some(format!("m{} was handed out for the first time after m{highest} of its key", entry.label));
            }
            *highest = entry.label.max(*highest);
        }
        self.handed_out.extend(batch.iter().map(|entry| entry.label));
        broken
    }

    /// A message comes again, and the later ones of its key wait for it.
    pub(super) fn comes_again(&mut self, label: usize, key: String) {
        if self.pauses {
            self.waiting.insert(label, key);
        }
    }

    /// A message does not come again.
    pub(super) fn is_dead(&mut self, label: usize) {
        self.waiting.remove(&label);
    }

    /// A dead letter comes once more, out of its order. It may be one of an earlier consumer of that name.
    pub(super) fn replayed(&mut self, label: usize) {
        self.handed_out.insert(label);
    }

    /// The first of these messages that was never handed out although the consumer is there from the start.
    pub(super) fn lost(&self, mut sent: impl Iterator<Item = usize>) -> Option<usize> {
        sent.find(|label| self.complete && !self.handed_out.contains(label))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(labels: &[usize]) -> Vec<Entry> {
        labels.iter().map(|label| Entry { label: *label, key: "k".into() }).collect()
    }

    fn hand_out(ledger: &mut Ledger, labels: &[usize]) -> Option<String> {
        ledger.hand_out(&entries(labels), |_| true)
    }

    #[test]
    fn a_message_that_overtakes_its_key_is_seen() {
        let mut ledger = Ledger::new(false, true);
        assert_eq!(hand_out(&mut ledger, &[0, 2]), None);
        assert_eq!(hand_out(&mut ledger, &[0]), None, "it comes again");
        assert!(hand_out(&mut ledger, &[1]).is_some());
    }

    #[test]
    fn a_message_that_does_not_wait_for_its_head_is_seen() {
        for (pauses, expected) in [(true, true), (false, false)] {
            let mut ledger = Ledger::new(pauses, true);
            hand_out(&mut ledger, &[0, 1]);
            ledger.comes_again(0, "k".into());
            assert_eq!(hand_out(&mut ledger, &[1]).is_some(), expected);
            assert_eq!(hand_out(&mut ledger, &[0, 1]), None);
        }
    }

    #[test]
    fn a_replayed_message_may_come_late() {
        let mut ledger = Ledger::new(true, false);
        hand_out(&mut ledger, &[5]);
        ledger.replayed(3);
        assert_eq!(hand_out(&mut ledger, &[3]), None);
        assert!(hand_out(&mut ledger, &[4]).is_some());
    }

    #[test]
    fn a_lost_message_is_seen() {
        let mut ledger = Ledger::new(false, true);
        hand_out(&mut ledger, &[0, 2]);
        assert_eq!(ledger.lost(0..3), Some(1));
        assert_eq!(Ledger::new(false, false).lost(0..3), None);
    }
}
