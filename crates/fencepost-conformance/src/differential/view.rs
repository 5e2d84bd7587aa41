//! What of a store's answers is promised, in words: numbers that are a store's own are left out or replaced by what they stand for.

use std::collections::BTreeMap;
use std::fmt::Write;

use fencepost_core::slot::OpenBatch;
use fencepost_core::{BatchSize, Message, Result, SlotStatus, Timestamp};

use super::operation::Operation;
use super::world::World;

/// Messages by key, each key in order: the order between keys is not promised.
pub(super) fn by_key(world: &World, messages: &[Message]) -> String {
    let mut keys: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for message in messages {
        let key = message.key.as_ref().map_or("", |key| key.as_str());
        let label = world.labels_of(&[message.id])[0];
        let payload = String::from_utf8_lossy(&message.payload);
        let told = format!("m{label} `{payload}` attempt {} delivery {}", message.attempt, message.deliveries);
        keys.entry(key).or_default().push(told);
    }
    format!("{keys:?}")
}

/// An open batch without what is a store's own.
pub(super) fn open(batch: Option<&OpenBatch>) -> String {
    match batch {
        None => "no batch".to_owned(),
        Some(OpenBatch { size, deliveries, crashes, alone, .. }) => {
            let alone = if *alone { " alone" } else { "" };
            format!("a batch of {size}{alone}, {deliveries} deliveries, {crashes} crashes")
        }
    }
}

fn slot(told: &SlotStatus, now: Timestamp) -> String {
    let SlotStatus { path, slot, state, lag, retrying, parked, .. } = told;
    let owner = match &state.owner {
        None => "free".to_owned(),
        Some(owner) if now < owner.expires_at => format!("held for {:?}", owner.expires_at.since(now)),
        Some(owner) => format!("expired since {:?}", now.since(owner.expires_at)),
    };
    let isolated = if state.isolated.is_some() { ", isolated" } else { "" };
    let acked = if state.last_acked.is_some() { ", has acked" } else { "" };
    let batch = open(state.batch.as_ref());
    format!("slot {path}/{slot}: {owner}, {batch}{isolated}{acked}; lag {lag}, retrying {retrying}, parked {parked}")
}

impl World {
    /// How everything stands, a line a thing.
    pub(super) async fn standing(&self) -> Result<String> {
        let (store, mut lines) = (&self.side.store, String::new());
        let now = store.now().await?;
        let mut line = |text: String| writeln!(lines, "{text}").expect("a text takes more text");
        for told in store.queue_status().await? {
            let oldest = told.oldest_at.map(|at| now.since(at));
            line(format!(
                "queue: {} stored, {} delayed, oldest {oldest:?}, paused {}, {} consumers",
                told.stored, told.delayed, told.paused, told.consumers
            ));
        }
        for told in store.consumer_status(None).await? {
            let (slots, policy) = (told.slots.get(), told.policy);
            line(format!(
                "consumer {}: {slots} slots, lag {}, retrying {}, parked {}, dead {}, {policy:?}",
                told.path, told.lag, told.retrying, told.parked, told.dead
            ));
        }
        for told in store.slot_status(None).await? {
            line(slot(&told, now));
            let due = store.next_due(&told.path, told.slot).await?;
            line(format!("slot {}/{}: next due in {due:?}", told.path, told.slot));
        }
        for path in Self::consumers() {
            for letter in store.dead_letters(&path, None, BatchSize::default()).await? {
                let (label, cause) = (self.labels_of(&[letter.id])[0], letter.cause.as_str());
                let (attempts, ago) = (letter.attempts, now.since(letter.died_at));
                line(format!("dead {path}: m{label}, {attempts} attempts, {cause}, {:?} {ago:?} ago", letter.reason));
            }
        }
        Ok(lines)
    }
}

/// What a call and its outcome are counted as.
pub(super) fn seen(operation: &Operation, view: &str) -> Vec<String> {
    let name = format!("{operation:?}");
    let name = name.split([' ', '{']).next().unwrap_or_default().to_lowercase();
    let outcome = view.lines().next().unwrap_or_default();
    let mut words = outcome.split(' ');
    let first = words.next().unwrap_or_default();
    let code = if first == "error" { words.next().unwrap_or_default() } else { "" };
    let mut seen = vec![format!("{name}: {first} {code}").trim_end().to_owned()];
    if outcome.contains("withdrawn [") && !outcome.contains("withdrawn []") {
        seen.push("message: withdrawn".to_owned());
    }
    if outcome.contains(" alone") {
        seen.push("message: alone".to_owned());
    }
    seen
}
