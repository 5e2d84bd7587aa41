//! The server's clock is stepped, forward and back: epochs rise whatever it does, and nothing is live for two.

use std::collections::BTreeMap;

use fencepost_core::{AcquireLease, Acquired, HolderName, Kind, LeaseName, LeaseToken, Leases, Renewal};
use fencepost_postgres::{PostgresStore, TransactionCalls};
use fencepost_test_support::{Random, TestDatabase};
use tokio_postgres::Client;

use crate::script::{call, own, receive, run, value};
use crate::stage::{installed, options, ttl};

/// The server's clock, which this test alone moves.
struct Steps(Client);

impl Steps {
    async fn by(&self, seconds: i64) {
        run(&self.0, &format!("update fencepost.test_clock set at = at + {seconds} * interval '1 second'")).await;
    }
}

async fn stage() -> Option<(TestDatabase, Steps, PostgresStore)> {
    let database = installed(true).await?;
    let steps = Steps(database.connect().await.unwrap());
    let store = PostgresStore::open(&database.url(), options()).await.unwrap();
    Some((database, steps, store))
}

fn request(lease: &str, holder: &str) -> AcquireLease {
    AcquireLease::new(LeaseName::new(lease).unwrap(), HolderName::new(holder).unwrap()).ttl(ttl(30))
}

async fn acquire(store: &PostgresStore, lease: &str, holder: &str) -> Option<LeaseToken> {
    match store.acquire_lease(&request(lease, holder)).await.unwrap() {
        Acquired::Granted { token, .. } => Some(token),
        Acquired::Held { .. } => None,
        Acquired::Contended => panic!("nobody else is there"),
    }
}

/// Whether the token's guard holds.
async fn guards(client: &mut Client, token: &LeaseToken) -> bool {
    let transaction = client.transaction().await.unwrap();
    let guarded = transaction.guard_in(token).await;
    transaction.rollback().await.unwrap();
    match guarded {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.kind(), Kind::Fenced, "{error:?}");
            false
        }
    }
}

/// B16: stepped back by an hour, the server grants nothing that is held, also beyond what its TTL was; the owner renews and guards; epochs go
/// on above the recorded one. Stepped forward past the end, another is granted it, and the old token is void from then on.
#[tokio::test]
async fn b16_a_clock_set_back_frees_nothing_and_repeats_no_epoch() {
    let Some((database, steps, store)) = stage().await else { return };
    let mut guard = database.connect().await.unwrap();
    let first = acquire(&store, "l", "a").await.expect("it is free");
    steps.by(-3_600).await;
    assert_eq!(acquire(&store, "l", "b").await, None);
    let other = acquire(&store, "m", "b").await.expect("it is free");
    assert!(other.epoch > first.epoch);
    assert!(guards(&mut guard, &first).await);
    steps.by(600).await;
    assert_eq!(acquire(&store, "l", "b").await, None, "the grant ends by the clock that it was made by");
    assert_eq!(store.renew_lease(&first, None).await.unwrap(), Renewal::Held);
    steps.by(7_200).await;
    let heir = acquire(&store, "l", "b").await.expect("it is over");
    assert!(heir.epoch > other.epoch);
    assert!(guards(&mut guard, &heir).await && !guards(&mut guard, &first).await);
    assert_eq!(store.renew_lease(&first, None).await.unwrap(), Renewal::Lost);
}

/// The same of slots: one that is held is nobody else's after a step back, its owner acks, and the heir after a step forward gets the
/// same batch under a higher epoch.
#[tokio::test]
async fn a_slot_is_one_owners_whatever_the_clock_does() {
    let Some((database, steps, _store)) = stage().await else { return };
    let admin = database.connect().await.unwrap();
    run(&admin, "select fencepost.create_queue('q'); select fencepost.create_consumer('q', 'c')").await;
    run(&admin, "select fencepost.send('q', n::text) from generate_series(1, 4) n").await;
    const CLAIM: &str = "select slot, epoch from fencepost.claim('q', 'c', 'w', '30 s')";
    let first = own(&call(&admin, CLAIM).await.unwrap()).expect("it is free");
    let (batch, _) = receive(&admin, first, 2).await.expect("a batch");
    steps.by(-86_400).await;
    assert_eq!(own(&call(&admin, CLAIM).await.unwrap()), None);
    run(&admin, &format!("select fencepost.ack({}, {batch})", first.arguments())).await;
    let (batch, ids) = receive(&admin, first, 2).await.expect("the next batch");
    steps.by(2 * 86_400).await;
    let heir = own(&call(&admin, CLAIM).await.unwrap()).expect("it is over");
    assert!(heir.epoch > first.epoch);
    assert_eq!(receive(&admin, heir, 9).await, Some((batch, ids)));
    let late = call(&admin, &format!("select fencepost.ack({}, {batch})", first.arguments())).await;
    assert_eq!(late.unwrap_err().kind(), Kind::Fenced);
    let renewed: bool = value(&admin, &format!("select fencepost.renew_slot({})", first.arguments())).await;
    assert!(!renewed);
}

/// Random steps by up to a day either way between acquires, renewals and releases of a few leases: every grant's epoch is above all
/// before it, and of all tokens of a lease at most the last one guards.
#[tokio::test]
async fn random_steps_repeat_no_epoch_and_leave_one_valid_token() {
    let Some((database, steps, store)) = stage().await else { return };
    let mut guard = database.connect().await.unwrap();
    let mut dice = Random::seeded(7);
    let mut granted: BTreeMap<String, Vec<LeaseToken>> = BTreeMap::new();
    let mut highest = 0;
    for turn in 0..300 {
        let lease = format!("l{}", dice.below(3));
        match dice.below(4) {
            0 => steps.by(dice.below(172_801).cast_signed() - 86_400).await,
            1 => {
                if let Some(token) = granted.get(&lease).and_then(|tokens| tokens.last()) {
                    store.renew_lease(token, None).await.unwrap();
                }
            }
            2 if dice.below(3) == 0 => {
                if let Some(token) = granted.get(&lease).and_then(|tokens| tokens.last()) {
                    store.release_lease(token).await.unwrap();
                }
            }
            _ => {
                if let Some(token) = acquire(&store, &lease, "h").await {
                    assert!(token.epoch.get() > highest, "turn {turn}: {} after {highest}", token.epoch);
                    highest = token.epoch.get();
                    granted.entry(lease.clone()).or_default().push(token);
                }
            }
        }
        if let Some((last, earlier)) = granted.get(&lease).and_then(|tokens| tokens.split_last()) {
            for token in earlier.iter().rev().take(3) {
                assert!(!guards(&mut guard, token).await, "turn {turn}: {} beside {}", token.epoch, last.epoch);
            }
        }
    }
    assert!(granted.values().all(|tokens| tokens.len() > 3), "grants were made of each");
}
