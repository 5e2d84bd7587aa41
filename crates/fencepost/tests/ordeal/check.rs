//! What must be true after an ordeal, each from what is stored.

use std::collections::{BTreeMap, BTreeSet};

use fencepost::OnFailure;

use crate::chaos::{Fate, KEYS, Ordeal};
use crate::ground::{Effect, Ground};

#[expect(clippy::print_stdout, reason = "what happened, for whoever runs more seeds")]
pub async fn everything(ground: &Ground, seed: u64, policy: OnFailure, ordeal: &Ordeal) {
    let (effects, dead) = (ground.effects().await, ground.dead().await);
    let crashed = dead.values().filter(|cause| *cause == "crashes").count();
    let Ordeal { sent, kills, stops } = ordeal;
    println!(
        "seed {seed}, {policy:?}: {} sent, {} effects, {} dead ({crashed} by crashes), {kills} kills, {stops} stops",
        sent.len(),
        effects.len(),
        dead.len()
    );
    assert!(*kills > 0 && *stops > 0, "seed {seed}: something happened to the workers");
    nothing_lost_or_doubled(seed, sent, &effects, &dead);
    fates_are_kept(seed, sent, &dead);
    keys_in_order(seed, policy, &effects, sent);
    no_effect_under_an_old_epoch(seed, &effects);
}

fn nothing_lost_or_doubled(seed: u64, sent: &[(i64, String)], effects: &[Effect], dead: &BTreeMap<i64, String>) {
    let finished: BTreeSet<i64> = effects.iter().map(|effect| effect.id).collect();
    assert_eq!(finished.len(), effects.len(), "seed {seed}: an effect is doubled");
    for (id, text) in sent {
        let ends = usize::from(finished.contains(id)) + usize::from(dead.contains_key(id));
        assert_eq!(ends, 1, "seed {seed}: message {id} ({text}) is lost, or both finished and dead");
    }
    assert_eq!(finished.len() + dead.len(), sent.len(), "seed {seed}: nothing else is there");
}

/// What was to be rejected or to run out of attempts did, and nothing else, but for what ended its owners.
fn fates_are_kept(seed: u64, sent: &[(i64, String)], dead: &BTreeMap<i64, String>) {
    for (id, text) in sent {
        let cause = dead.get(id).map(String::as_str).filter(|cause| *cause != "crashes");
        let expected = match (Fate::of(text.as_bytes(), 1), Fate::of(text.as_bytes(), 9)) {
            (Fate::IsRejected, _) => Some("rejected"),
            (_, Fate::Fails) => Some("attempts"),
            _ => None,
        };
        let crashed = dead.get(id).is_some_and(|cause| cause == "crashes");
        assert!(crashed || cause == expected, "seed {seed}: message {id} ({text}): {cause:?}");
    }
}

/// Under pause every key in order; otherwise those of a key that never failed.
fn keys_in_order(seed: u64, policy: OnFailure, effects: &[Effect], sent: &[(i64, String)]) {
    let never_fails = |text: &str| Fate::of(text.as_bytes(), 1) == Fate::Finishes;
    let mut last: BTreeMap<String, (u64, String)> = BTreeMap::new();
    for effect in effects {
        let mut parts = effect.payload.split('/');
        let (key, number) = (parts.next().unwrap(), parts.next().unwrap().parse::<u64>().unwrap());
        let is_keyed = key.parse::<u64>().unwrap() < KEYS;
        if !is_keyed || (policy == OnFailure::Skip && !never_fails(&effect.payload)) {
            continue;
        }
        let before = last.insert(key.to_owned(), (number, effect.payload.clone()));
        let in_order = before.as_ref().is_none_or(|(before, _)| *before < number);
        assert!(in_order, "seed {seed}: {} came after {before:?}", effect.payload);
    }
    assert!(sent.is_empty() || !last.is_empty());
}

/// In each slot epochs only rise: nobody who was replaced had an effect afterwards.
fn no_effect_under_an_old_epoch(seed: u64, effects: &[Effect]) {
    let mut highest: BTreeMap<i64, i64> = BTreeMap::new();
    for effect in effects {
        let before = highest.insert(effect.slot, effect.epoch).unwrap_or(0);
        assert!(before <= effect.epoch, "seed {seed}: message {} under an old epoch", effect.id);
    }
}
