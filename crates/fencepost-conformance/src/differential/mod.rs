//! Random calls on two stores side by side: whatever the contract promises has to come out alike. A sequence that tells them apart is
//! cut down to the calls that it takes.
//!
//! Only what is promised is compared: outcomes and codes, which messages come in which order within a key, attempts, deliveries,
//! and how slots, consumers and queues stand. Ids, epochs and positions are each store's own. Beside it each store is held to what no
//! comparison shows: a ledger checks that nothing is lost, that the order of a key holds, and that everything can be finished.

mod finish;
mod ledger;
mod operation;
mod view;
mod world;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use fencepost_core::{ManualClock, Store};

pub use operation::{Named, Operation, Owner};

use world::World;

/// A fresh store with the clock that it lives by.
pub struct Side {
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    understood: fn(Operation) -> Operation,
}

impl Side {
    /// A store that understands every call as it is meant.
    pub fn new(store: Arc<dyn Store>, clock: Arc<ManualClock>) -> Self {
        Self { store, clock, understood: |operation| operation }
    }

    /// Makes the store misunderstand calls, as one with a bug would: a comparison that does not notice proves nothing.
    #[must_use]
    pub fn with_bug(self, understood: fn(Operation) -> Operation) -> Self {
        Self { understood, ..self }
    }
}

/// What is to be compared.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The first sequence; the others follow from it.
    pub seed: u64,
    /// How many sequences.
    pub sequences: u64,
    /// How many calls each.
    pub length: usize,
}

impl Plan {
    /// The same with the first sequence and the number of sequences that `FENCEPOST_SEED` and `FENCEPOST_SEQUENCES` ask for, for runs
    /// that take longer than a test may.
    #[must_use]
    pub fn asked(self) -> Self {
        let asked = |name, otherwise| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise);
        let (seed, sequences) = (asked("FENCEPOST_SEED", self.seed), asked("FENCEPOST_SEQUENCES", self.sequences));
        Self { seed, sequences, ..self }
    }
}

/// How often every sort of call had which outcome, so that a comparison is not green because nothing happened.
#[derive(Debug, Default)]
pub struct Tally(BTreeMap<String, u64>);

impl Tally {
    /// How often something was seen, such as `ack: acked` or `slot: isolated`.
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    fn add(&mut self, seen: impl IntoIterator<Item = String>) {
        seen.into_iter().for_each(|what| *self.0.entry(what).or_default() += 1);
    }
}

/// Two stores that answered differently, or one that broke a promise, with the fewest calls that were found to tell them apart.
pub struct Difference {
    /// The sequence that it was found in.
    pub seed: u64,
    /// What was called; the last one is where the answers differ.
    pub operations: Vec<Operation>,
    views: [String; 2],
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "two stores differ, or broke a promise, after {} calls of sequence {}:",
            self.operations.len(),
            self.seed
        )?;
        for operation in &self.operations {
            writeln!(f, "  {operation:?}")?;
        }
        let [first, second] = &self.views;
        writeln!(f, "the first one:\n{first}\nthe second one:\n{second}")
    }
}

impl fmt::Debug for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Runs the plan over fresh pairs of stores, and tells what happened or the first difference.
///
/// # Errors
/// The difference, cut down.
pub async fn compare(plan: Plan, open: impl AsyncFn() -> [Side; 2]) -> Result<Tally, Difference> {
    let mut tally = Tally::default();
    for seed in plan.seed..plan.seed + plan.sequences {
        let operations = operation::sequence(seed, plan.length);
        if let Some(found) = first_difference(&operations, open().await, &mut tally).await {
            return Err(cut_down(found, seed, &open).await);
        }
    }
    Ok(tally)
}

/// A sequence up to the call after which two stores differ.
struct Found {
    operations: Vec<Operation>,
    views: [String; 2],
}

async fn first_difference(operations: &[Operation], sides: [Side; 2], tally: &mut Tally) -> Option<Found> {
    let [mut first, mut second] = sides.map(World::new);
    for (called, operation) in operations.iter().enumerate() {
        let views = [first.perform(operation).await, second.perform(operation).await];
        tally.add(view::seen(operation, &views[0]));
        let operations = || operations[..=called].to_vec();
        if views[0] != views[1] {
            return Some(Found { operations: operations(), views: different_lines(&views) });
        }
        if let Some(views) = broken(&first, &second) {
            return Some(Found { operations: operations(), views });
        }
    }
    first.finish().await;
    second.finish().await;
    broken(&first, &second).map(|views| Found { operations: operations.to_vec(), views })
}

/// The promises that the stores broke, if one did.
fn broken(first: &World, second: &World) -> Option<[String; 2]> {
    let told = |world: &World| world.broken.clone().unwrap_or_else(|| "nothing".into());
    let broke = first.broken.is_some() || second.broken.is_some();
    broke.then(|| [first, second].map(|world| format!("  broke: {}", told(world))))
}

/// The lines of two views that are not in the other one.
fn different_lines(views: &[String; 2]) -> [String; 2] {
    let only = |one: &String, other: &String| {
        let known: Vec<&str> = other.lines().collect();
        one.lines().filter(|line| !known.contains(line)).map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
    };
    [only(&views[0], &views[1]), only(&views[1], &views[0])]
}

/// Leaves out calls, many at once and then one by one, as long as the stores still differ without them.
async fn cut_down(mut found: Found, seed: u64, open: &impl AsyncFn() -> [Side; 2]) -> Difference {
    let mut chunk = found.operations.len().div_ceil(2);
    while chunk > 0 {
        let (mut from, mut shrunk) = (0, false);
        while from < found.operations.len() {
            let end = (from + chunk).min(found.operations.len());
            let rest = [&found.operations[..from], &found.operations[end..]].concat();
            match first_difference(&rest, open().await, &mut Tally::default()).await {
                Some(smaller) => (found, shrunk) = (smaller, true),
                None => from += chunk,
            }
        }
        chunk = if shrunk { chunk.min(found.operations.len()) } else { chunk / 2 };
    }
    let Found { operations, views } = found;
    Difference { seed, operations, views }
}
