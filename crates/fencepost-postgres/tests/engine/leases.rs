//! Leases as the contract has them, on a server: who is granted, who is told what, and what it costs when the row is locked.

use std::time::{Duration, Instant};

use fencepost_conformance::dropped_after;
use fencepost_core::lease::{LeaseState, Phase};
use fencepost_core::{
    AcquireLease, Acquired, HolderName, Kind, LeaseName, LeaseToken, Leases, Nonce, Reason, Release, Renewal, Retry,
};
use fencepost_postgres::PostgresStore;

use crate::stage::{Stage, installed, options, ttl};

fn named(name: &str, holder: &str, seconds: u64) -> AcquireLease {
    AcquireLease::new(LeaseName::new(name).unwrap(), HolderName::new(holder).unwrap()).ttl(ttl(seconds))
}

fn request(holder: &str, seconds: u64) -> AcquireLease {
    named("nightly", holder, seconds)
}

async fn acquire(store: &PostgresStore, holder: &str, seconds: u64) -> LeaseToken {
    granted(store.acquire_lease(&request(holder, seconds)).await.unwrap())
}

fn granted(acquired: Acquired) -> LeaseToken {
    let Acquired::Granted { token, .. } = acquired else { panic!("not granted: {acquired:?}") };
    token
}

async fn state(store: &PostgresStore) -> LeaseState {
    store.lease(&LeaseName::new("nightly").unwrap()).await.unwrap().expect("it was acquired").state
}

#[tokio::test]
async fn a_lease_is_granted_held_renewed_and_given_back() {
    let Some(stage) = Stage::new().await else { return };
    let (store, other) = (&stage.store, stage.another().await);
    let now = store.now().await.unwrap();
    let token = acquire(store, "a", 10).await;
    stage.pass(4);
    let held = other.acquire_lease(&request("b", 10)).await.unwrap();
    let holder = HolderName::new("a").unwrap();
    let expires_in = Duration::from_secs(6);
    assert_eq!(held, Acquired::Held { holder, epoch: token.epoch, since: now, expires_in });
    assert_eq!(store.renew_lease(&token, Some(ttl(60))).await.unwrap(), Renewal::Held);
    assert_eq!(store.renew_lease(&token, None).await.unwrap(), Renewal::Held);
    let holding = state(&other).await.holding.unwrap();
    assert_eq!((holding.expires_at, holding.ttl), (now + Duration::from_secs(64), ttl(60)));
    assert_eq!(store.release_lease(&token).await.unwrap(), Release::Released);
    assert_eq!(store.release_lease(&token).await.unwrap(), Release::NotHeld);
    assert_eq!(state(&other).await, LeaseState { epoch: Some(token.epoch), holding: None });
    let next = acquire(&other, "b", 10).await;
    assert!(next.epoch > token.epoch);
    assert_eq!(state(store).await.holding.unwrap().ttl, ttl(10), "a renewal of an earlier grant counts for nothing");
    assert_eq!(store.lease_status().await.unwrap().len(), 1);
}

/// B14: a handle renews late as long as nobody took over, and is lost once somebody did.
#[tokio::test]
async fn b14_a_late_renewal_is_held_until_somebody_takes_over() {
    let Some(stage) = Stage::new().await else { return };
    let token = acquire(&stage.store, "a", 1).await;
    stage.pass(3);
    assert_eq!(state(&stage.store).await.phase(stage.store.now().await.unwrap()), Phase::Expired);
    assert_eq!(stage.store.renew_lease(&token, None).await.unwrap(), Renewal::Held);
    assert!(matches!(stage.store.acquire_lease(&request("b", 1)).await.unwrap(), Acquired::Held { .. }));
    stage.pass(3);
    let heir = acquire(&stage.store, "b", 10).await;
    assert!(heir.epoch > token.epoch);
    assert_eq!(stage.store.renew_lease(&token, None).await.unwrap(), Renewal::Lost);
    assert_eq!(stage.store.release_lease(&token).await.unwrap(), Release::NotHeld);
}

/// B15: the same holder's name is Held while live, and gets a new epoch with the full TTL after expiry.
#[tokio::test]
async fn b15_the_same_holder_name_is_excluded_while_live() {
    let Some(stage) = Stage::new().await else { return };
    let old = acquire(&stage.store, "a", 10).await;
    assert!(matches!(stage.store.acquire_lease(&request("a", 10)).await.unwrap(), Acquired::Held { .. }));
    stage.pass(10);
    let new = acquire(&stage.store, "a", 10).await;
    assert!(new.epoch > old.epoch);
    assert_eq!(state(&stage.store).await.holding.unwrap().since, stage.store.now().await.unwrap());
    assert_eq!(stage.store.renew_lease(&old, None).await.unwrap(), Renewal::Lost);
}

/// B16: a clock of the caller's that is ahead or behind changes nothing: the server's decides.
#[tokio::test]
async fn b16_the_clock_of_the_caller_decides_nothing() {
    let Some(stage) = Stage::new().await else { return };
    acquire(&stage.store, "a", 30).await;
    for stepped in [60_000_000, -120_000_000] {
        stage.clock.step_wall(stepped);
        let held = stage.store.acquire_lease(&request("b", 30)).await.unwrap();
        assert!(matches!(held, Acquired::Held { expires_in, .. } if expires_in == Duration::from_secs(30)), "{held:?}");
    }
}

/// B17: a TTL of 1 s excludes for 1 s, by the server's own clock.
#[tokio::test]
async fn b17_a_ttl_of_one_second_excludes_for_one_second() {
    let Some(database) = installed(false).await else { return };
    let store = PostgresStore::open(&database.url(), options()).await.unwrap();
    let asked = Instant::now();
    acquire(&store, "a", 1).await;
    let answered = Instant::now();
    loop {
        let sent = Instant::now();
        match store.acquire_lease(&request("b", 1)).await.unwrap() {
            Acquired::Granted { .. } => {
                assert!(asked.elapsed() >= Duration::from_secs(1), "{:?}", asked.elapsed());
                assert!(sent.duration_since(answered) < Duration::from_millis(1_050), "{:?}", answered.elapsed());
                return;
            }
            Acquired::Held { expires_in, .. } => tokio::time::sleep(expires_in).await, // TIME: the server's clock is the subject
            Acquired::Contended => {}
        }
    }
}

/// B20: names of 255 bytes, of any script, and with quotes work end to end.
#[tokio::test]
async fn b20_long_and_strange_names_work_end_to_end() {
    let Some(stage) = Stage::new().await else { return };
    let names =
        ["x".repeat(255), "ü".repeat(127), "注文 · nº 7".to_owned(), "a'b\"c\\d%e$1; --".to_owned(), "n".repeat(70)];
    for name in &names {
        let token = granted(stage.store.acquire_lease(&named(name, name, 10)).await.unwrap());
        let status = stage.store.lease(&token.name).await.unwrap().unwrap();
        assert_eq!(status.state.holding.unwrap().holder.as_str(), name);
        let taken = stage.store.acquire_lease(&named(name, "b", 10)).await.unwrap();
        assert!(matches!(taken, Acquired::Held { .. }));
        assert_eq!(stage.store.renew_lease(&token, None).await.unwrap(), Renewal::Held);
        assert_eq!(stage.store.release_lease(&token).await.unwrap(), Release::Released);
        let reason = Reason::new(name.as_str()).unwrap();
        stage.store.force_release_lease(&token.name, &reason).await.unwrap();
        assert_eq!(stage.store.lease_history(&token.name).await.unwrap()[0].reason, reason);
    }
    assert_eq!(stage.store.lease_status().await.unwrap().len(), names.len());
}

/// B33: of forty acquires at once of a name that nobody ever used exactly one is granted; the others are told the real holder or
/// that it is contended, and none fails. Again when it is free and the row is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn b33_forty_acquires_at_once_grant_exactly_one() {
    let Some(stage) = Stage::new().await else { return };
    let mut handles = Vec::new();
    for _ in 0..4 {
        handles.push(stage.another().await);
    }
    for _ in 0..5 {
        let tasks: Vec<_> = (0..40)
            .map(|n: usize| {
                let store = handles[n % handles.len()].clone();
                tokio::spawn(async move { store.acquire_lease(&request(&format!("h{n}"), 10)).await.unwrap() })
            })
            .collect();
        let (mut winners, mut told) = (Vec::new(), Vec::new());
        for task in tasks {
            match task.await.unwrap() {
                Acquired::Granted { token, .. } => winners.push(token),
                Acquired::Held { epoch, .. } => told.push(epoch),
                Acquired::Contended => {}
            }
        }
        let [winner] = winners.as_slice() else { panic!("{winners:?} were granted") };
        assert!(told.iter().all(|epoch| *epoch == winner.epoch), "{told:?} were told, {winner:?} holds it");
        stage.store.release_lease(winner).await.unwrap();
    }
}

/// An acquire of a lease whose row is locked answers at once: who holds it when it is live, `contended` when that is being decided.
#[tokio::test]
async fn a_locked_lease_is_answered_at_once() {
    let Some(stage) = Stage::new().await else { return };
    let token = acquire(&stage.store, "a", 10).await;
    let mut client = stage.client().await;
    for (is_free, name) in [(false, "nightly"), (true, "nightly"), (true, "never used")] {
        if is_free {
            stage.store.release_lease(&token).await.unwrap();
        }
        let open = client.transaction().await.unwrap();
        match name {
            "nightly" => open.batch_execute("select from fencepost.lease for update").await.unwrap(),
            _ => open.batch_execute("select fencepost.lease_acquire('never used', 'b', '1 h')").await.unwrap(),
        }
        // It answers while the lock is held, which is until the rollback: it has not waited for it.
        let answer = stage.store.acquire_lease(&named(name, "b", 10)).await.unwrap();
        match (is_free, &answer) {
            (false, Acquired::Held { .. }) | (true, Acquired::Contended) => {}
            _ => panic!("{answer:?}"),
        }
        open.rollback().await.unwrap();
    }
}

#[tokio::test]
async fn the_nonce_of_a_live_grant_returns_it_and_writes_nothing() {
    let Some(stage) = Stage::new().await else { return };
    let named = request("a", 10).nonce(Nonce::new("n1").unwrap());
    let first = stage.store.acquire_lease(&named).await.unwrap();
    stage.pass(7);
    let client = stage.client().await;
    let version = "select xmin::text || ctid::text from fencepost.lease_grant";
    let before: String = client.query_one(version, &[]).await.unwrap().get(0);
    assert_eq!(stage.store.acquire_lease(&named).await.unwrap(), first);
    assert_eq!(client.query_one(version, &[]).await.unwrap().get::<_, String>(0), before);
    stage.pass(3);
    assert!(granted(stage.store.acquire_lease(&named).await.unwrap()).epoch > granted(first).epoch);
}

/// Every await of an acquire, a renewal and a release: dropped there, the call has happened or not as a whole, and whoever asks next
/// gets the lease without time passing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_may_be_dropped_at_every_await() {
    let Some(stage) = Stage::new().await else { return };
    let store = &stage.store;
    for polls in 0..40 {
        let token = match dropped_after(polls % 10, store.acquire_lease(&request("gone", 3_600))).await {
            Some(Ok(Acquired::Granted { token, .. })) => token,
            // A call that was dropped goes on to its end, and what it was granted is given back.
            _ => loop {
                if let Acquired::Granted { token, .. } = store.acquire_lease(&request("next", 3_600)).await.unwrap() {
                    break token;
                }
                tokio::task::yield_now().await;
            },
        };
        dropped_after(polls % 10, store.renew_lease(&token, None)).await;
        dropped_after(polls % 10, store.lease(&token.name)).await;
        assert_eq!(store.renew_lease(&token, None).await.unwrap(), Renewal::Held);
        dropped_after(polls % 10, store.release_lease(&token)).await;
        store.release_lease(&token).await.unwrap();
        assert_eq!(state(store).await, LeaseState { epoch: Some(token.epoch), holding: None });
    }
    let client = stage.client().await;
    let left = "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'";
    assert_eq!(client.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0);
}

/// A50: a transition within a transaction that sees an old snapshot is refused with what to do, and nothing changes.
#[tokio::test]
async fn a50_transitions_at_repeatable_read_are_refused_with_a_hint() {
    let Some(stage) = Stage::new().await else { return };
    let token = acquire(&stage.store, "a", 10).await;
    let epoch = token.epoch;
    let mut client = stage.client().await;
    let calls = [
        "select fencepost.lease_acquire('other', 'b', '10 s')".to_owned(),
        format!("select fencepost.lease_renew('nightly', {epoch})"),
        format!("select fencepost.lease_release('nightly', {epoch})"),
        "select fencepost.lease_force_release('nightly', 'why')".to_owned(),
    ];
    for level in [tokio_postgres::IsolationLevel::RepeatableRead, tokio_postgres::IsolationLevel::Serializable] {
        for call in &calls {
            let open = client.build_transaction().isolation_level(level).start().await.unwrap();
            let error = fencepost_postgres::driver_error(open.batch_execute(call).await.unwrap_err());
            assert_eq!((error.kind(), error.retry()), (Kind::Unsupported, Retry::Never), "{error:?}");
            assert!(error.hint().unwrap().contains("READ COMMITTED") && error.fact("isolation").is_some(), "{error:?}");
        }
    }
    assert!(state(&stage.store).await.holding.is_some());
}

/// A50: where sessions begin at another level by default, the client says READ COMMITTED itself.
#[tokio::test]
async fn a50_a_default_of_another_isolation_level_changes_nothing() {
    let Some(stage) = Stage::new().await else { return };
    let (client, name) = (stage.client().await, stage.database.name());
    for setting in ["serializable", "repeatable read"] {
        client
            .batch_execute(&format!("alter database {name} set default_transaction_isolation = '{setting}'"))
            .await
            .unwrap();
        let store = stage.another().await;
        let token = acquire(&store, "a", 10).await;
        assert_eq!(store.renew_lease(&token, None).await.unwrap(), Renewal::Held);
        assert_eq!(store.release_lease(&token).await.unwrap(), Release::Released);
        store.force_release_lease(&token.name, &Reason::new("why").unwrap()).await.unwrap();
    }
}

/// A lease held under another server or timeline is nobody's: not renewed, not guarded, and granted again only when its TTL has passed
/// since the new one was seen. One that was free is granted at once.
#[tokio::test]
async fn a_change_of_the_server_voids_what_was_granted_before() {
    let Some(stage) = Stage::new().await else { return };
    let (store, client) = (&stage.store, stage.client().await);
    let token = acquire(store, "a", 10).await;
    let free = granted(store.acquire_lease(&named("free", "a", 10)).await.unwrap());
    store.release_lease(&free).await.unwrap();
    client.batch_execute("update fencepost.generation set name = 'another server'").await.unwrap();
    assert_eq!(store.renew_lease(&token, None).await.unwrap(), Renewal::Lost);
    assert_eq!(store.release_lease(&token).await.unwrap(), Release::NotHeld);
    let guard = format!("select fencepost.lease_guard('nightly', {})", token.epoch);
    let error = fencepost_postgres::driver_error(client.batch_execute(&guard).await.unwrap_err());
    assert_eq!(error.kind(), Kind::Fenced);
    // The server answers an error before it lets go of what the statement locked; the next answer comes after that.
    client.batch_execute("select").await.unwrap();
    granted(store.acquire_lease(&named("free", "b", 10)).await.unwrap());
    stage.pass(10);
    assert_eq!(store.acquire_lease(&request("b", 10)).await.unwrap(), Acquired::Contended);
    stage.pass(1);
    let heir = acquire(store, "b", 10).await;
    // The lost timeline may have granted a little more than this one knows.
    assert!(heir.epoch.get() > token.epoch.get() + 50_000_000, "{heir:?} after {token:?}");
}

#[tokio::test]
async fn leases_that_were_free_for_long_are_forgotten_with_their_history() {
    let Some(stage) = Stage::new().await else { return };
    let (store, client) = (&stage.store, stage.client().await);
    let kept = acquire(store, "a", 86_400).await;
    for n in 0..3 {
        let token = granted(store.acquire_lease(&named(&format!("l{n}"), "a", 10)).await.unwrap());
        store.renew_lease(&token, None).await.unwrap();
        store.force_release_lease(&token.name, &Reason::new("why").unwrap()).await.unwrap();
    }
    let forget = async || client.query_one("select fencepost._forget_leases()", &[]).await.unwrap().get::<_, i64>(0);
    stage.pass(29 * 86_400);
    assert_eq!(forget().await, 0);
    stage.pass(2 * 86_400);
    assert_eq!((forget().await, forget().await), (1, 0));
    assert_eq!(store.lease_status().await.unwrap().len(), 1);
    assert!(store.lease_history(&LeaseName::new("l1").unwrap()).await.unwrap().is_empty());
    assert!(state(store).await.holding.is_some(), "{kept:?} is held");
    for table in ["lease_grant", "lease_renewal", "lease_forced"] {
        let rows =
            client.query_one(&format!("select count(*) from fencepost.{table}"), &[]).await.unwrap().get::<_, i64>(0);
        assert_eq!(rows, i64::from(table == "lease_grant"), "{table}");
    }
}

#[tokio::test]
async fn a_history_keeps_the_last_hundred() {
    let Some(stage) = Stage::new().await else { return };
    let name = LeaseName::new("nightly").unwrap();
    let token = acquire(&stage.store, "a", 10).await;
    let mut epochs = Vec::new();
    for n in 0..103 {
        let reason = Reason::new(format!("reason {n}")).unwrap();
        epochs.push(stage.store.force_release_lease(&name, &reason).await.unwrap());
    }
    assert!(epochs.is_sorted() && epochs[0] > token.epoch);
    let history = stage.store.lease_history(&name).await.unwrap();
    assert_eq!((history.len(), history[0].reason.as_str()), (100, "reason 3"));
    assert_eq!(history[99].epoch, epochs[102]);
    assert!(history.iter().all(|forced| forced.from.is_none()));
}
