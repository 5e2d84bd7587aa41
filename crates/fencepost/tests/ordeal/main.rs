//! Workers in processes of their own that are killed, stopped and woken up late at random moments while messages come and fail, and
//! checkers over what is left: nothing lost, no effect doubled, per-key order, no effect under an old epoch.
//!
//! `FENCEPOST_SEEDS=50` runs more seeds than the usual five on SQLite and three on PostgreSQL, `FENCEPOST_SEED=7` only that one.

mod chaos;
mod check;
mod ground;
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

use fencepost::OnFailure;
use fencepost_test_support::{PgServer, skip_or_fail};
use tokio::runtime::{Builder, Runtime};

use crate::ground::Ground;

fn seeds(usual: u64) -> Vec<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match number("FENCEPOST_SEED") {
        Some(seed) => vec![seed],
        None => (1..=number("FENCEPOST_SEEDS").unwrap_or(usual)).collect(),
    }
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

async fn ordeal<F: Copy>(test: F, url: &str, seed: u64) {
    let ground = Ground::make(url).await;
    let policy = if seed.is_multiple_of(2) { OnFailure::Pause } else { OnFailure::Skip };
    let ordeal = chaos::run(test, url, &ground, seed, policy).await;
    check::everything(&ground, seed, policy, &ordeal).await;
}

#[test]
fn workers_that_are_killed_and_stopped_lose_and_double_nothing() {
    puppet::play(part::play);
    for seed in seeds(5) {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("ordeal.db").display());
        runtime().block_on(ordeal(workers_that_are_killed_and_stopped_lose_and_double_nothing, &url, seed));
    }
}

#[test]
fn workers_on_postgres_that_are_killed_and_stopped_lose_and_double_nothing() {
    puppet::play(part::play);
    let runtime = runtime();
    let Some(server) = skip_or_fail(runtime.block_on(PgServer::shared())) else { return };
    for seed in seeds(3) {
        let database = runtime.block_on(server.database()).unwrap();
        let test = workers_on_postgres_that_are_killed_and_stopped_lose_and_double_nothing;
        runtime.block_on(ordeal(test, &database.url(), seed));
    }
}
