//! Transactions that stop with a slot's lock, and callers' own transactions around sends: by the server's own clock.

use std::time::{Duration, Instant};

use fencepost_core::Kind;
use fencepost_postgres::PostgresStore;

use crate::script::{Own, begin, call, own, receive, run, value};
use crate::stage::{installed, options, until_waiting};

/// A24: an owner that stops inside its ack transaction is shown as what blocks its slot; a claim passes over that at once; the server ends the
/// transaction when the grant is over, and the slot is taken over within a second of that.
#[tokio::test(flavor = "multi_thread")]
async fn a24_an_owner_that_stops_in_its_ack_is_ended_by_the_server() {
    let Some(database) = installed(false).await else { return };
    let admin = database.connect().await.unwrap();
    run(&admin, "select fencepost.create_queue('q')").await;
    run(&admin, "select fencepost.create_consumer('q', 'c', 2)").await;
    let ttl = Duration::from_secs(2);
    run(&admin, "select fencepost.send('q', n::text, key => n::text) from generate_series(1, 20) n").await;
    for call_that_stops in ["ack", "receive", "guard"] {
        let stopped = database.connect().await.unwrap();
        let claimed =
            call(&admin, "select slot, epoch from fencepost.claim_slot('q', 'c', 0, 'w', '2 s')").await.unwrap();
        let (token, granted) = (own(&claimed).expect("the slot is free or expired"), Instant::now());
        let (batch, ids) = receive(&admin, token, 3).await.expect("a batch");
        let pid: i32 = value(&stopped, "select pg_backend_pid()").await;
        let sql = match call_that_stops {
            "ack" => format!("ack({}, {batch})", token.arguments()),
            "receive" => format!("ack_receive({}, {batch}, 5)", token.arguments()),
            _ => format!("slot_guard({})", token.arguments()),
        };
        run(&stopped, &format!("begin; select * from fencepost.{sql}")).await;
        let status = "select state, blocked_by from fencepost.slot_status where slot = 0";
        let row = admin.query_one(status, &[]).await.unwrap();
        assert_eq!((row.get::<_, String>(0).as_str(), row.get::<_, Option<i32>>(1)), ("blocked", Some(pid)), "{sql}");
        let claim = "select slot, epoch from fencepost.claim('q', 'c', 'v', '10 s')";
        let other: Own = own(&call(&admin, claim).await.unwrap()).expect("the other slot");
        // It answers while the lock is held, so it has not waited for it.
        let locked = "select from fencepost.slot where slot = 0 for update nowait";
        assert_eq!(call(&admin, locked).await.map(drop).unwrap_err().kind(), Kind::Busy, "{sql}");
        assert_eq!(other.slot, 1);
        run(&admin, &format!("select fencepost.release_slot({})", other.arguments())).await;
        let heir = loop {
            let claimed =
                call(&admin, "select slot, epoch from fencepost.claim_slot('q', 'c', 0, 'heir', '2 s')").await.unwrap();
            if let Some(heir) = own(&claimed) {
                break heir;
            }
            tokio::time::sleep(Duration::from_millis(20)).await; // TIME: the server's own timeout is the subject
        };
        let took = granted.elapsed();
        assert!(
            took >= ttl - Duration::from_millis(50) && took < ttl + Duration::from_millis(1_200),
            "{sql}: {took:?}"
        );
        // Nothing of what the stopped one did is there: its batch comes to the heir.
        assert_eq!(receive(&admin, heir, 9).await.expect("the batch"), (batch, ids));
        run(
            &admin,
            &format!(
                "select fencepost.ack({}, {batch}); select fencepost.release_slot({})",
                heir.arguments(),
                heir.arguments()
            ),
        )
        .await;
        assert!(stopped.batch_execute("commit").await.is_err());
    }
}

/// A43: what is sent in a caller's transaction is received after its commit, also by a receive of that transaction's end; a commit that comes
/// late, after higher ids were acked, is received once.
#[tokio::test]
async fn a43_late_commits_and_own_sends_are_received_once() {
    let Some(database) = installed(false).await else { return };
    let (admin, late) = (database.connect().await.unwrap(), database.connect().await.unwrap());
    run(&admin, "select fencepost.create_queue('q')").await;
    run(&admin, "select fencepost.create_consumer('q', 'c')").await;
    let token = own(&call(&admin, "select slot, epoch from fencepost.claim('q', 'c', 'w')").await.unwrap()).unwrap();
    run(&late, "begin; select fencepost.send('q', 'late', key => 'k')").await;
    let mut taken = Vec::new();
    // Each sends, receives what was sent before, and acks it, in one transaction.
    for _ in 0..3 {
        run(&admin, "begin; select fencepost.send('q', 'own', key => 'k')").await;
        if let Some((batch, ids)) = receive(&admin, token, 10).await {
            run(&admin, &format!("select fencepost.ack({}, {batch})", token.arguments())).await;
            taken.extend(ids);
        }
        run(&admin, "commit").await;
    }
    assert_eq!(taken, [2, 3], "its own is there after its commit");
    run(&late, "commit").await;
    let (batch, ids) = receive(&admin, token, 10).await.unwrap();
    assert_eq!(ids, [1, 4]);
    run(&admin, &format!("select fencepost.ack({}, {batch})", token.arguments())).await;
    assert_eq!(receive(&admin, token, 10).await, None);
}

/// A51: two that send under one idempotency key at once: the second one waits, and is `busy` within its bound, or finds the first.
#[tokio::test]
async fn a51_two_sends_under_one_key_at_once_append_once() {
    let Some(database) = installed(false).await else { return };
    let (one, two) = (database.connect().await.unwrap(), database.connect().await.unwrap());
    run(&one, "select fencepost.create_queue('q')").await;
    const SEND: &str = "select id, deduplicated from fencepost.send_once('q', 'x', 'key')";
    run(&one, "begin").await;
    let first: i64 = value(&one, SEND).await;
    let since = Instant::now();
    let error = call(&two, SEND).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Busy, "busy"), "{error:?}");
    let waited = since.elapsed();
    assert!(waited > Duration::from_millis(500) && waited < Duration::from_secs(2), "{waited:?}");
    let second = begin(two, SEND.to_owned());
    run(&one, "commit").await;
    let (two, rows) = second.await.unwrap();
    let rows = rows.unwrap();
    assert_eq!((rows[0].get::<_, i64>(0), rows[0].get::<_, bool>(1)), (first, true));
    // After a rollback the second one is the first.
    run(&one, "begin; select fencepost.send_once('q', 'x', 'other')").await;
    let second = begin(two, SEND.replace("key", "other"));
    tokio::task::yield_now().await;
    run(&one, "rollback").await;
    let rows = second.await.unwrap().1.unwrap();
    assert!(!rows[0].get::<_, bool>(1));
    assert_eq!(value::<i64>(&one, "select count(*) from fencepost.q1_0").await, 2);
}

/// B28: an open of an empty database and senders in another transaction do not wait for each other; nor does opening what is current.
#[tokio::test]
async fn b28_sends_and_opens_do_not_wait_for_each_other() {
    let Some(database) = installed(false).await else { return };
    let (admin, sender) = (database.connect().await.unwrap(), database.connect().await.unwrap());
    run(&admin, "select fencepost.create_queue('q')").await;
    run(&sender, "begin; select fencepost.send('q', 'x')").await;
    let since = Instant::now();
    for create in [false, true] {
        PostgresStore::open(&database.url(), options().create(create)).await.unwrap();
    }
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    // An upgrade of the functions waits behind another one; senders go on.
    let install = i64::from_str_radix("43f3659bc15941e1", 16).unwrap();
    run(&admin, "update fencepost.installed set checksum = '', name = '0.0.1' where version = 0").await;
    run(&admin, &format!("begin; select pg_advisory_xact_lock({install})")).await;
    let url = database.url();
    let opening = tokio::spawn(async move { PostgresStore::open(&url, options().create(true)).await.map(drop) });
    until_waiting(&database.connect().await.unwrap(), 1).await;
    run(&sender, "set local lock_timeout = '500ms'; select fencepost.send('q', 'y'); commit").await;
    run(&sender, "begin; select fencepost.send('q', 'z')").await;
    run(&admin, "commit").await;
    opening.await.unwrap().unwrap();
    run(&sender, "commit; select fencepost.send('q', 'after')").await;
    assert_eq!(value::<i64>(&admin, "select count(*) from fencepost.q1_0").await, 4);
}
