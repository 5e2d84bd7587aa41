//! Workers in processes of their own that are killed, stopped and woken up late at random moments while messages come and fail, and
//! checkers over what is left: nothing lost, no effect doubled, per-key order, no effect under an old epoch.
//!
//! `FENCEPOST_SEEDS=50` runs more seeds than the usual five, `FENCEPOST_SEED=7` only that one.

mod chaos;
mod check;
mod part;

/// The puppets of the engine's tests.
#[path = "../../../fencepost-sqlite/tests/engine/puppet.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod puppet;

/// What the puppets take from the place of those tests.
mod place {
    /// How long anything may take that must come.
    pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);
}

use std::path::Path;

use fencepost::OnFailure;

fn seeds() -> Vec<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match number("FENCEPOST_SEED") {
        Some(seed) => vec![seed],
        None => (1..=number("FENCEPOST_SEEDS").unwrap_or(5)).collect(),
    }
}

#[test]
fn workers_that_are_killed_and_stopped_lose_and_double_nothing() {
    puppet::play(|file: &Path| part::play(file));
    for seed in seeds() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ordeal.db");
        let policy = if seed % 2 == 0 { OnFailure::Pause } else { OnFailure::Skip };
        let ordeal = chaos::run(workers_that_are_killed_and_stopped_lose_and_double_nothing, &file, seed, policy);
        check::everything(&file, seed, policy, &ordeal);
    }
}
