//! Group commit: callers that arrive together share a commit, and nobody's failure becomes somebody else's, unless SQLite rolls the
//! whole transaction back. Then everybody hears it and nothing is half there.

use std::time::{Duration, Instant};

use fencepost_core::{Closed, Error, Kind, NewMessage, Queues, Result, Retry, Slots, Store, Topic, Wakeups};
use fencepost_sqlite::rusqlite::TransactionBehavior;
use fencepost_sqlite::{SqliteStore, WriteTransaction, driver_error};

use crate::place::{Place, Still, bytes, claim, commits, copy, orders, queued, refused, rows, run, text, texts};

const MINUTE: Duration = Duration::from_secs(60);

/// A closure that inserts a row and then does something else.
fn effect<T: Send + 'static>(
    store: &SqliteStore,
    id: i64,
    then: impl FnOnce(&WriteTransaction<'_, '_>) -> Result<T> + Send + 'static,
) -> impl Future<Output = Result<T>> {
    let store = store.clone();
    async move {
        store
            .write(move |tx| {
                tx.execute("INSERT INTO effect VALUES (?1)", [id]).map_err(driver_error)?;
                then(tx)
            })
            .await
    }
}

async fn stage(place: &Place) -> SqliteStore {
    let store = place.stage().await;
    place.connect().execute_batch("CREATE TABLE effect (id INTEGER PRIMARY KEY)").unwrap();
    store
}

#[test]
fn callers_that_arrive_together_share_a_commit() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        let before = commits(&place.file());
        let still = Still::new(&store).await;
        let calls: Vec<_> = (0..200).map(|n| queued(send(&store, n.to_string()))).collect();
        still.let_go().await;
        for call in calls {
            call.await.unwrap();
        }
        let shared = commits(&place.file()) - before;
        assert!((1..200).contains(&shared), "200 calls in {shared} commits");
        assert_eq!(texts(&store).await, (0..200).map(|n| n.to_string()).collect::<Vec<_>>());
    });
}

async fn send(store: &SqliteStore, payload: String) -> Result<i64> {
    store.send(&orders(), text(payload)).await.map(|id| id.get())
}

/// One group holds a fenced ack, a closure that fails and one that panics: each hears its own, and its row alone is undone.
#[test]
fn a_refusal_undoes_only_its_own_work() {
    run(async {
        let place = Place::new();
        let store = stage(&place).await;
        store.send(&orders(), text("first")).await.unwrap();
        let mut stale = claim(&store, "w1", 0, MINUTE).await;
        stale.token.epoch = fencepost_core::Epoch::new(1).unwrap();
        let before = commits(&place.file());

        let still = Still::new(&store).await;
        let first = queued(effect(&store, 1, |_| Ok(())));
        let token = stale.token.clone();
        let fenced = queued(effect(&store, 2, move |tx| tx.ack_in(&token, fencepost_core::BatchId::new(1)?)));
        let failed = queued(effect(&store, 3, |_| Err::<(), _>(Error::new(Kind::Conflict, "not today").coded("own"))));
        let panicked = queued(effect(&store, 4, |_| -> Result<()> { panic!("as asked") }));
        let absent = queued(effect(&store, 5, |tx| tx.send_in(&fencepost_core::QueueName::new("absent")?, text("x"))));
        let last = queued(effect(&store, 6, |tx| tx.send_in(&orders(), text("last"))));
        still.let_go().await;

        first.await.unwrap();
        refused(fenced.await, Kind::Fenced, "fenced");
        refused(failed.await, Kind::Conflict, "own");
        refused(panicked.await, Kind::Internal, "internal");
        refused(absent.await, Kind::NotFound, "not_found");
        last.await.unwrap();
        assert_eq!(rows(&place.connect(), "effect"), [1, 6]);
        assert_eq!(texts(&store).await, ["first", "last"]);
        assert!(commits(&place.file()) > before);
    });
}

#[test]
fn the_closures_own_error_comes_back_as_it_is() {
    #[derive(Debug, PartialEq)]
    enum Own {
        Mine(u8),
        Theirs(&'static str),
    }
    impl From<Error> for Own {
        fn from(error: Error) -> Self {
            Own::Theirs(error.code())
        }
    }
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        assert_eq!(store.write(|_| Err::<(), _>(Own::Mine(7))).await, Err(Own::Mine(7)));
        store.close().await;
        assert_eq!(store.write(|_| Err::<(), _>(Own::Mine(7))).await, Err(Own::Theirs("store_closed")));
    });
}

/// A payload that does not fit, among 64 that do. SQLite gives the whole transaction up: whoever shared it hears so.
#[test]
fn everybody_hears_it_when_the_storage_is_full_and_nothing_is_half_there() {
    run(async {
        let mut company = 0;
        for _ in 0..10 {
            company += fill_up(&Place::new()).await;
            if company > 0 {
                return;
            }
        }
        panic!("the payload that did not fit never had company");
    });
}

/// Returns how many calls failed because they shared the transaction of the one that did not fit.
async fn fill_up(place: &Place) -> usize {
    let store = place.stage().await;
    store.close().await;
    let pages: u32 = place.connect().query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    let store = place.open_with(place.options().max_pages(pages + 60)).await;

    let still = Still::new(&store).await;
    let mut calls = Vec::new();
    for n in 0..65 {
        let payload = if n == 40 { "x".repeat(1 << 20) } else { n.to_string() };
        calls.push((n, queued(send(&store, payload))));
    }
    still.let_go().await;
    let (mut kept, mut failed) = (Vec::new(), Vec::new());
    for (n, call) in calls {
        match call.await {
            Ok(_) => kept.push(n.to_string()),
            Err(error) => {
                assert_eq!((error.kind(), error.code()), (Kind::Unavailable, "storage_full"), "{error:?}");
                assert_eq!(error.retry(), Retry::Backoff);
                failed.push(n);
            }
        }
    }
    assert_eq!(texts(&store).await, kept, "what was acknowledged is there, and nothing else");
    assert!(failed.contains(&40));
    // The group that failed is what came right before.
    assert_eq!(failed, (41 - failed.len()..=40).collect::<Vec<_>>());

    // It goes on under the same limit once storage was given back ...
    while send(&store, "y".repeat(20_000)).await.is_ok() {}
    refused(send(&store, "y".repeat(20_000)).await, Kind::Unavailable, "storage_full");
    drain(&store).await;
    while store.maintain(None).await.unwrap() > 0 {}
    send(&store, "y".repeat(20_000)).await.unwrap();
    store.close().await;
    // ... and with a higher limit.
    let store = place.open_with(place.options().max_pages(pages + 2_000)).await;
    send(&store, "x".repeat(1 << 20)).await.unwrap();
    failed.len() - 1
}

async fn drain(store: &SqliteStore) {
    for slot in 0..2 {
        let token = claim(store, "drain", slot, MINUTE).await.token;
        while let Some(batch) = store.receive(&token, Default::default()).await.unwrap() {
            store.ack(&token, batch.id).await.unwrap();
        }
        store.release_slot(&token).await.unwrap();
    }
}

const ENDLESS: &str = "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number)";

/// A statement that only reads is interrupted for its own caller alone.
#[test]
fn a_query_past_the_bound_is_rolled_back_alone() {
    run(async {
        let place = Place::new();
        stage(&place).await.close().await;
        let store = place.open_with(place.options().write_bound(Duration::from_millis(50))).await;
        let still = Still::new(&store).await;
        let before = queued(effect(&store, 1, |_| Ok(())));
        let long = queued(effect(&store, 2, |tx| {
            tx.query_row(&format!("{ENDLESS} SELECT count(*) FROM number"), [], |_| Ok(())).map_err(driver_error)
        }));
        let after = queued(effect(&store, 3, |_| Ok(())));
        still.let_go().await;
        before.await.unwrap();
        refused(long.await, Kind::LimitExceeded, "write_bound");
        after.await.unwrap();
        assert_eq!(rows(&place.connect(), "effect"), [1, 3]);
    });
}

/// SQLite rolls the whole transaction back when it interrupts a statement that writes: the others may try again.
#[test]
fn a_write_past_the_bound_is_rolled_back_with_its_group() {
    run(async {
        let place = Place::new();
        stage(&place).await.close().await;
        let store = place.open_with(place.options().write_bound(Duration::from_millis(50))).await;
        let still = Still::new(&store).await;
        let before = queued(effect(&store, 1, |_| Ok(())));
        let long = queued(effect(&store, 2, |tx| {
            tx.execute(&format!("{ENDLESS} INSERT INTO effect SELECT n FROM number WHERE n < 0"), [])
                .map_err(driver_error)
        }));
        let after = queued(effect(&store, 3, |_| Ok(())));
        still.let_go().await;
        let before = before.await.unwrap_err();
        assert_eq!((before.kind(), before.code(), before.retry()), (Kind::Unavailable, "rolled_back", Retry::Backoff));
        refused(long.await, Kind::LimitExceeded, "write_bound");
        after.await.unwrap();
        assert_eq!(rows(&place.connect(), "effect"), [3]);
    });
}

#[test]
fn a_closure_past_the_bound_is_rolled_back_whatever_it_returns() {
    const BOUND: Duration = Duration::from_millis(20);
    run(async {
        let place = Place::new();
        stage(&place).await.close().await;
        let store = place.open_with(place.options().write_bound(BOUND)).await;
        let spin = |_: &WriteTransaction<'_, '_>| {
            let started = Instant::now();
            while started.elapsed() <= BOUND {
                std::hint::spin_loop();
            }
            Ok(())
        };
        refused(effect(&store, 1, spin).await, Kind::LimitExceeded, "write_bound");
        let swallow = |tx: &WriteTransaction<'_, '_>| {
            let _ = tx.query_row(&format!("{ENDLESS} SELECT count(*) FROM number"), [], |_| Ok(()));
            tx.send_in(&orders(), text("too late"))
        };
        refused(effect(&store, 2, swallow).await, Kind::LimitExceeded, "write_bound");
        assert_eq!(rows(&place.connect(), "effect"), [] as [i64; 0]);
        assert!(texts(&store).await.is_empty());
        effect(&store, 3, |_| Ok(())).await.unwrap();
    });
}

#[test]
fn a_call_dropped_before_its_turn_does_not_run() {
    run(async {
        let place = Place::new();
        let store = stage(&place).await;
        let still = Still::new(&store).await;
        let (ran, told) = std::sync::mpsc::channel();
        let dropped = queued(effect(&store, 1, move |_| {
            let _ = ran.send(());
            Ok(())
        }));
        let kept = queued(effect(&store, 2, |_| Ok(())));
        drop(dropped);
        still.let_go().await;
        kept.await.unwrap();
        assert!(told.try_recv().is_err());
        assert_eq!(rows(&place.connect(), "effect"), [2]);
    });
}

/// The transaction is shared: whoever tries to end it, or to begin another, is refused, and nobody else notices.
#[test]
fn a_closure_cannot_begin_commit_or_roll_back() {
    run(async {
        let place = Place::new();
        let store = stage(&place).await;
        for (n, sql) in [
            "COMMIT",
            "END TRANSACTION",
            "ROLLBACK",
            "BEGIN IMMEDIATE",
            "RELEASE fencepost_call",
            "ROLLBACK TO FENCEPOST_CALL",
            "COMMIT; BEGIN",
        ]
        .into_iter()
        .enumerate()
        {
            let id = n as i64 * 10;
            let before = commits(&place.file());
            let still = Still::new(&store).await;
            let first = queued(effect(&store, id, |tx| tx.send_in(&orders(), text("first"))));
            let ends = queued(effect(&store, id + 1, move |tx| tx.execute_batch(sql).map_err(driver_error)));
            // One that goes on regardless has only lost that statement.
            let deaf = queued(effect(&store, id + 2, move |tx| {
                assert!(tx.execute_batch(sql).is_err());
                tx.send_in(&orders(), text("deaf"))
            }));
            let last = queued(effect(&store, id + 3, |tx| tx.send_in(&orders(), text("last"))));
            still.let_go().await;
            first.await.unwrap();
            refused(ends.await, Kind::Unsupported, "unsupported");
            deaf.await.unwrap();
            last.await.unwrap();
            assert!(commits(&place.file()) > before, "{sql}");
        }
        let expected: Vec<i64> = (0..7).flat_map(|n| [n * 10, n * 10 + 2, n * 10 + 3]).collect();
        assert_eq!(rows(&place.connect(), "effect"), expected);
        assert_eq!(texts(&store).await, ["first", "deaf", "last"].repeat(7));
    });
}

/// `ON CONFLICT ROLLBACK` ends the transaction under the closure. One that goes on must not commit statement by statement.
#[test]
fn a_closure_that_goes_on_after_a_rollback_stores_nothing() {
    run(async {
        let place = Place::new();
        let store = stage(&place).await;
        effect(&store, 1, |_| Ok(())).await.unwrap();

        let still = Still::new(&store).await;
        let first = queued(effect(&store, 2, |_| Ok(())));
        let deaf = queued(effect(&store, 3, |tx| {
            assert!(tx.execute("INSERT OR ROLLBACK INTO effect VALUES (1)", []).is_err());
            assert!(tx.execute("INSERT INTO effect VALUES (4)", []).is_err(), "it would commit by itself");
            let sent = tx.send_in(&orders(), text("x"));
            assert_eq!(sent.unwrap_err().code(), "rolled_back");
            Ok(())
        }));
        let last = queued(effect(&store, 5, |tx| tx.send_in(&orders(), text("last"))));
        still.let_go().await;
        refused(first.await, Kind::Unavailable, "rolled_back");
        refused(deaf.await, Kind::Unavailable, "rolled_back");
        last.await.unwrap();
        assert_eq!(rows(&place.connect(), "effect"), [1, 5]);
        assert_eq!(texts(&store).await, ["last"]);
    });
}

#[test]
fn a_closures_own_savepoints_are_its_own() {
    run(async {
        let place = Place::new();
        let store = stage(&place).await;
        let nested = |tx: &WriteTransaction<'_, '_>| {
            tx.execute_batch(
                "SAVEPOINT part; INSERT INTO effect VALUES (2); ROLLBACK TO part; INSERT INTO effect VALUES (3); RELEASE part;
                 SAVEPOINT left_open; INSERT INTO effect VALUES (4)",
            )
            .map_err(driver_error)
        };
        effect(&store, 1, nested).await.unwrap();
        assert_eq!(rows(&place.connect(), "effect"), [1, 3, 4]);
        let undone = |tx: &WriteTransaction<'_, '_>| {
            tx.execute_batch("SAVEPOINT left_open; INSERT INTO effect VALUES (6)").map_err(driver_error)?;
            Err::<(), _>(Error::new(Kind::Conflict, "undo it"))
        };
        assert!(effect(&store, 5, undone).await.is_err());
        assert_eq!(rows(&place.connect(), "effect"), [1, 3, 4]);
    });
}

#[test]
fn work_between_transactions_that_panics_harms_nobody_else() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        refused(store.between_transactions::<(), _>(|| panic!("as asked")).await, Kind::Internal, "internal");
        assert_eq!(store.between_transactions(|| 7).await.unwrap(), 7);
        send(&store, "after".into()).await.unwrap();
    });
}

#[test]
fn closing_answers_what_was_accepted_and_refuses_what_comes_later() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        let mut sleeper = store.wakes(&Topic::Messages(orders()));
        let still = Still::new(&store).await;
        let accepted: Vec<_> = (0..50).map(|n| queued(send(&store, n.to_string()))).collect();
        let (closing, closing_too) = (queued(store.close()), queued(store.close()));
        refused(send(&store, "late".into()).await, Kind::Unavailable, "store_closed");
        still.let_go().await;
        // Whoever closes, and however many do: when it has returned, everything is done.
        closing_too.await;
        closing.await;
        for call in accepted {
            call.await.unwrap();
        }
        assert_eq!((sleeper.woken().await, sleeper.woken().await), (Ok(()), Err(Closed)));
        assert_eq!(store.wakes(&Topic::Messages(orders())).woken().await, Err(Closed));
        refused(send(&store, "late".into()).await, Kind::Unavailable, "store_closed");
        refused(store.queue_status().await, Kind::Unavailable, "store_closed");
        refused(store.write(|_| Ok(())).await, Kind::Unavailable, "store_closed");
        refused(store.between_transactions(|| ()).await, Kind::Unavailable, "store_closed");
        assert_eq!(store.now().await.unwrap_err().retry(), Retry::Never);

        // Nothing is left open, so the file alone is the whole store.
        assert!(!place.path("app.db-wal").exists());
        let alone = Place::new();
        copy(&[place.file()], &alone.file());
        let expected: Vec<String> = (0..50).map(|n| n.to_string()).collect();
        assert_eq!(texts(&alone.open().await).await, expected);
        assert!(!bytes(&place.file()).is_empty());
    });
}

/// Eight callers wait for the same lock of somebody else: for one bound together, not for one after the other.
#[test]
fn callers_in_a_row_wait_for_one_bound() {
    const BOUND: Duration = Duration::from_millis(300);
    run(async {
        let place = Place::new();
        place.stage().await.close().await;
        let store = place.open_with(place.options().busy_timeout(BOUND)).await;
        let mut other = place.connect();
        let lock = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let started = Instant::now();
        let calls: Vec<_> = (0..8)
            .map(|n| {
                tokio::spawn({
                    let store = store.clone();
                    async move { store.send(&orders(), NewMessage::new(n.to_string())?).await }
                })
            })
            .collect();
        // Reading needs no lock.
        assert_eq!(store.queue_status().await.unwrap()[0].stored, 0);
        for call in calls {
            refused(call.await.unwrap(), Kind::Busy, "busy");
        }
        let waited = started.elapsed();
        assert!(waited >= BOUND && waited < 3 * BOUND, "{waited:?}");
        drop(lock);
        send(&store, "free".into()).await.unwrap();
        assert_eq!(texts(&store).await, ["free"]);
    });
}
