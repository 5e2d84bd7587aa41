//! Guards in callers' own transactions: what they keep from happening meanwhile, and what they judge by at every isolation level.

use std::time::{Duration, Instant};

use fencepost_core::{
    AcquireLease, Acquired, HolderName, Kind, LeaseName, LeaseToken, Leases, Reason, Release, Renewal,
};
use fencepost_postgres::{PostgresStore, TransactionCalls};
use tokio_postgres::{Client, IsolationLevel, Transaction};

use crate::stage::{Stage, ttl};

const LEVELS: [IsolationLevel; 3] =
    [IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead, IsolationLevel::Serializable];

fn request(holder: &str) -> AcquireLease {
    AcquireLease::new(LeaseName::new("nightly").unwrap(), HolderName::new(holder).unwrap()).ttl(ttl(10))
}

async fn acquire(store: &PostgresStore, holder: &str) -> LeaseToken {
    let acquired = store.acquire_lease(&request(holder)).await.unwrap();
    let Acquired::Granted { token, .. } = acquired else { panic!("not granted: {acquired:?}") };
    token
}

async fn begin(client: &mut Client, level: IsolationLevel) -> Transaction<'_> {
    client.build_transaction().isolation_level(level).start().await.unwrap()
}

/// Takes the transaction's snapshot, where it has one.
async fn look(open: &Transaction<'_>) {
    open.batch_execute("select 1").await.unwrap();
}

/// While a guarded transaction is open nobody takes over, and the holder renews.
#[tokio::test]
async fn a_guard_keeps_others_out_and_lets_the_holder_renew() {
    let Some(stage) = Stage::new().await else { return };
    let mut client = stage.client().await;
    for level in LEVELS {
        let token = acquire(&stage.store, "a").await;
        let open = begin(&mut client, level).await;
        open.guard_in(&token).await.unwrap();
        let since = Instant::now();
        for _ in 0..3 {
            assert_eq!(stage.store.renew_lease(&token, None).await.unwrap(), Renewal::Held);
        }
        stage.pass(11);
        // Expired, and still nobody is granted it.
        assert_eq!(stage.store.acquire_lease(&request("b")).await.unwrap(), Acquired::Contended);
        assert!(since.elapsed() < Duration::from_secs(4), "nothing waited: {:?}", since.elapsed());
        open.commit().await.unwrap();
        let heir = acquire(&stage.store, "b").await;
        assert_eq!(stage.store.release_lease(&heir).await.unwrap(), Release::Released);
    }
}

/// An expired lease that nobody took over is guarded; a stranger's, a free or an unknown one is fenced.
#[tokio::test]
async fn a_guard_judges_the_epoch_alone() {
    let Some(stage) = Stage::new().await else { return };
    let mut client = stage.client().await;
    for level in LEVELS {
        let token = acquire(&stage.store, "a").await;
        stage.pass(60);
        let open = begin(&mut client, level).await;
        open.guard_in(&token).await.unwrap();
        open.commit().await.unwrap();
        let heir = acquire(&stage.store, "b").await;
        let error = begin(&mut client, level).await.guard_in(&token).await.unwrap_err();
        assert_eq!((error.kind(), error.code(), error.operation()), (Kind::Fenced, "fenced", Some("guard_lease")));
        assert_eq!(error.fact("presented_epoch"), Some(token.epoch.to_string().as_str()));
        assert_eq!(error.fact("current_epoch"), Some(heir.epoch.to_string().as_str()));
        assert_eq!(error.hint(), token.fenced(Some(heir.epoch)).hint());
        assert_eq!(error.to_string(), token.fenced(Some(heir.epoch)).to_string());
        stage.store.release_lease(&heir).await.unwrap();
        let unknown = LeaseToken { name: LeaseName::new("unknown").unwrap(), epoch: token.epoch };
        for token in [&heir, &unknown] {
            let error = begin(&mut client, level).await.guard_in(token).await.unwrap_err();
            assert_eq!((error.kind(), error.fact("current_epoch")), (Kind::Fenced, Some("none")), "{error:?}");
        }
    }
    assert_eq!(stage.store.lease_status().await.unwrap().len(), 1, "a refused guard leaves nothing behind");
}

/// A transaction whose snapshot is older than a takeover never passes for the old holder, nor fails for good for the new one.
#[tokio::test]
async fn a_guard_at_an_old_snapshot_is_not_judged_by_what_is_over() {
    let Some(stage) = Stage::new().await else { return };
    let (mut late, mut early) = (stage.client().await, stage.client().await);
    for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let old = acquire(&stage.store, "a").await;
        let (by_old, by_new) = (begin(&mut late, level).await, begin(&mut early, level).await);
        look(&by_old).await;
        look(&by_new).await;
        stage.pass(10);
        let new = acquire(&stage.store, "b").await;
        for (open, token) in [(by_old, &old), (by_new, &new)] {
            let error = open.guard_in(token).await.unwrap_err();
            assert_eq!((error.kind(), error.code()), (Kind::Busy, "serialization_failure"), "{error:?}");
        }
        stage.store.release_lease(&new).await.unwrap();
    }
    // A lease that is younger than the snapshot: its row is not seen at all.
    let open = begin(&mut late, IsolationLevel::RepeatableRead).await;
    look(&open).await;
    let young = AcquireLease::new(LeaseName::new("young").unwrap(), HolderName::new("a").unwrap());
    let Acquired::Granted { token, .. } = stage.store.acquire_lease(&young).await.unwrap() else {
        panic!("not granted")
    };
    assert_eq!(open.guard_in(&token).await.unwrap_err().code(), "serialization_failure");
    open.rollback().await.unwrap();
    begin(&mut late, IsolationLevel::RepeatableRead).await.guard_in(&token).await.unwrap();
}

/// Renewals since the snapshot do not disturb a guard.
#[tokio::test]
async fn a_guard_at_an_old_snapshot_is_not_disturbed_by_renewals() {
    let Some(stage) = Stage::new().await else { return };
    let mut client = stage.client().await;
    for level in LEVELS {
        let token = acquire(&stage.store, "a").await;
        let open = begin(&mut client, level).await;
        look(&open).await;
        for _ in 0..3 {
            stage.store.renew_lease(&token, None).await.unwrap();
        }
        open.guard_in(&token).await.unwrap();
        open.commit().await.unwrap();
        stage.store.release_lease(&token).await.unwrap();
    }
}

/// A guard bounds its transaction by what is left of the grant, at least 1 s and never above what the caller has set.
#[tokio::test]
async fn a_guard_bounds_how_long_its_transaction_may_idle() {
    let Some(stage) = Stage::new().await else { return };
    let mut client = stage.client().await;
    let token = acquire(&stage.store, "a").await;
    for (passed, own, bound) in [(0, "0", "10s"), (4, "0", "6s"), (0, "2s", "2s"), (0, "1h", "6s"), (60, "0", "1s")] {
        stage.pass(passed);
        let open = client.transaction().await.unwrap();
        open.batch_execute(&format!("set local idle_in_transaction_session_timeout = '{own}'")).await.unwrap();
        open.guard_in(&token).await.unwrap();
        let shown = open.query_one("show idle_in_transaction_session_timeout", &[]).await.unwrap().get::<_, String>(0);
        assert_eq!(shown, bound, "{passed} s later, own {own}");
        open.rollback().await.unwrap();
        let after = client.query_one("show idle_in_transaction_session_timeout", &[]).await.unwrap();
        assert_eq!(after.get::<_, String>(0), "0");
    }
}

/// A paused owner stands in the way for as long as its grant was to last, and no longer: the server ends its transaction.
#[tokio::test]
async fn an_owner_that_is_paused_inside_a_guarded_transaction_is_ended_by_the_server() {
    let Some(stage) = Stage::new().await else { return };
    let mut client = stage.client().await;
    let token = acquire(&stage.store, "a").await;
    stage.pass(60);
    let open = client.transaction().await.unwrap();
    open.guard_in(&token).await.unwrap();
    let paused = Instant::now();
    loop {
        match stage.store.acquire_lease(&request("b")).await.unwrap() {
            Acquired::Granted { .. } => break,
            _ => assert!(paused.elapsed() < Duration::from_secs(5), "it still stands in the way"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await; // TIME: the server's own timeout is the subject
    }
    assert!(open.commit().await.is_err());
}

/// A release by force that meets a guard answers within 1 s and names the process that stands in its way.
#[tokio::test]
async fn a_release_by_force_names_who_is_in_its_way() {
    let Some(stage) = Stage::new().await else { return };
    let (mut one, mut two) = (stage.client().await, stage.client().await);
    let token = acquire(&stage.store, "a").await;
    let reason = Reason::new("stuck").unwrap();
    let open = one.transaction().await.unwrap();
    open.guard_in(&token).await.unwrap();
    let pid = |row: tokio_postgres::Row| row.get::<_, i32>(0);
    let first = pid(open.query_one("select pg_backend_pid()", &[]).await.unwrap());
    let since = Instant::now();
    let error = stage.store.force_release_lease(&token.name, &reason).await.unwrap_err();
    assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
    assert_eq!((error.kind(), error.fact("pids")), (Kind::Busy, Some(format!("[{first}]").as_str())), "{error:?}");

    let mut other = two.transaction().await.unwrap();
    let savepoint = other.savepoint("here").await.unwrap();
    savepoint.guard_in(&token).await.unwrap();
    savepoint.commit().await.unwrap();
    let second = pid(other.query_one("select pg_backend_pid()", &[]).await.unwrap());
    let error = stage.store.force_release_lease(&token.name, &reason).await.unwrap_err();
    let named = error.fact("pids").unwrap().to_owned();
    assert!(named.contains(&first.to_string()) && named.contains(&second.to_string()), "{named}: {first}, {second}");
    open.rollback().await.unwrap();
    other.rollback().await.unwrap();
    let epoch = stage.store.force_release_lease(&token.name, &reason).await.unwrap();
    assert!(epoch > token.epoch);
    let error = begin(&mut one, IsolationLevel::ReadCommitted).await.guard_in(&token).await.unwrap_err();
    assert_eq!((error.kind(), error.fact("current_epoch")), (Kind::Fenced, Some("none")));
    let history = stage.store.lease_history(&token.name).await.unwrap();
    assert_eq!((history.len(), history[0].from.as_deref(), history[0].epoch), (1, Some("a"), epoch));
}
