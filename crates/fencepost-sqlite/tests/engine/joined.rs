//! Joined transactions: the caller's own connection to the same file, its own rows and fencepost's, together or not at all.

use std::time::Duration;

use fencepost_core::{Kind, Queues, Release, Renewal, Slots, Store, Topic, Wakeups};
use fencepost_sqlite::rusqlite::{Connection, TransactionBehavior};

use crate::place::{PATIENCE, Place, billing, claim, orders, refused, rows, run, status, text, texts};

const MINUTE: Duration = Duration::from_secs(60);

fn effects(place: &Place) -> Connection {
    let connection = place.connect();
    connection.execute_batch("CREATE TABLE IF NOT EXISTS effect (id INTEGER PRIMARY KEY)").unwrap();
    connection
}

/// A21
#[test]
fn ack_and_release_commit_with_the_callers_rows() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        let mut own = effects(&place);
        store.send_batch(&orders(), vec![text("a"), text("b")]).await.unwrap();
        let token = slot_with_messages(&store, MINUTE).await;
        let batch = store.receive(&token, Default::default()).await.unwrap().unwrap();

        let tx = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        tx.execute("INSERT INTO effect VALUES (1)", []).unwrap();
        let joined = store.join(&tx).unwrap();
        assert_eq!(joined.ack_in(&token, batch.id).unwrap() as usize, batch.messages.len());
        assert_eq!(joined.release_in(&token).unwrap(), Release::Released);
        drop(joined);
        tx.commit().unwrap();

        assert_eq!(rows(&own, "effect"), [1]);
        let slot = status(&store, i64::from(token.slot.get())).await;
        assert_eq!((slot.state.owner, slot.state.batch, slot.state.last_acked), (None, None, Some(batch.id)));
        assert_eq!(slot.lag, 0);
    });
}

/// A21, rolled back: by an explicit rollback and by a transaction that is dropped.
#[test]
fn ack_and_release_rolled_back_leave_no_trace() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        let mut own = effects(&place);
        store.send_batch(&orders(), vec![text("a"), text("b")]).await.unwrap();
        let token = slot_with_messages(&store, MINUTE).await;
        let batch = store.receive(&token, Default::default()).await.unwrap().unwrap();
        let slot = i64::from(token.slot.get());
        let before = status(&store, slot).await;

        for explicit in [true, false] {
            let tx = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
            tx.execute("INSERT INTO effect VALUES (1)", []).unwrap();
            let joined = store.join(&tx).unwrap();
            joined.ack_in(&token, batch.id).unwrap();
            joined.release_in(&token).unwrap();
            joined.send_in(&orders(), text("never")).unwrap();
            drop(joined);
            if explicit {
                tx.rollback().unwrap()
            } else {
                drop(tx)
            }
            assert_eq!(status(&store, slot).await, before);
        }
        assert!(rows(&own, "effect").is_empty());
        assert_eq!(store.renew_slot(&token).await.unwrap(), Renewal::Held);
        assert_eq!(store.ack(&token, batch.id).await.unwrap() as usize, batch.messages.len());
        assert_eq!(texts(&store).await, ["a", "b"]);
    });
}

/// A01 inside a joined transaction.
#[test]
fn release_before_the_ack_is_refused() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        let mut own = place.connect();
        store.send_batch(&orders(), vec![text("a"), text("b")]).await.unwrap();
        let token = slot_with_messages(&store, MINUTE).await;
        let batch = store.receive(&token, Default::default()).await.unwrap().unwrap();
        let tx = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let joined = store.join(&tx).unwrap();
        refused(joined.release_in(&token), Kind::OpenBatch, "open_batch");
        joined.ack_in(&token, batch.id).unwrap();
        assert_eq!(joined.release_in(&token).unwrap(), Release::Released);
    });
}

/// A11: the epoch is judged inside the caller's transaction, and the caller's rows go with the refusal.
#[test]
fn a_stale_epoch_is_fenced_and_the_callers_rows_roll_back_with_it() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        let mut own = effects(&place);
        store.send_batch(&orders(), vec![text("a"), text("b")]).await.unwrap();
        let token = slot_with_messages(&store, Duration::from_secs(1)).await;
        let batch = store.receive(&token, Default::default()).await.unwrap().unwrap();
        place.clock.advance(Duration::from_secs(1));
        let slot = i64::from(token.slot.get());
        let heir = claim(&store, "w2", slot, MINUTE).await;
        let before = status(&store, slot).await;

        let tx = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        tx.execute("INSERT INTO effect VALUES (1)", []).unwrap();
        let joined = store.join(&tx).unwrap();
        let error = joined.ack_in(&token, batch.id).unwrap_err();
        assert_eq!((error.kind(), error.code()), (Kind::Fenced, "fenced"));
        assert_eq!(error.fact("presented_epoch"), Some(token.epoch.to_string().as_str()));
        assert_eq!(error.fact("current_epoch"), Some(heir.token.epoch.to_string().as_str()));
        assert_eq!(joined.release_in(&token).unwrap(), Release::NotHeld);
        drop(joined);
        drop(tx);
        assert!(rows(&own, "effect").is_empty());
        assert_eq!(status(&store, slot).await, before);
        assert_eq!(store.ack(&heir.token, batch.id).await.unwrap() as usize, batch.messages.len());
    });
}

#[test]
fn a_deferred_transaction_is_refused_until_it_has_written() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        let mut own = effects(&place);
        let tx = own.transaction_with_behavior(TransactionBehavior::Deferred).unwrap();
        refused(store.join(&tx), Kind::Unsupported, "unsupported");
        assert!(rows(&tx, "effect").is_empty());
        refused(store.join(&tx), Kind::Unsupported, "unsupported");
        tx.execute("INSERT INTO effect VALUES (1)", []).unwrap();
        store.join(&tx).unwrap().send_in(&orders(), text("x")).unwrap();
        tx.commit().unwrap();
        assert_eq!(texts(&store).await, ["x"]);
    });
}

#[test]
fn a_transaction_on_another_file_is_refused() {
    run(async {
        let (place, other) = (Place::new(), Place::new());
        let store = place.stage().await;
        other.stage().await.close().await;
        let memory = Connection::open_in_memory().unwrap();
        for mut connection in [other.connect(), memory] {
            let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
            refused(store.join(&tx), Kind::InvalidInput, "invalid_input");
        }
        // The same file by another name is the same file.
        std::os::unix::fs::symlink(place.file(), place.path("linked.db")).unwrap();
        let mut linked = Connection::open(place.path("linked.db")).unwrap();
        let tx = linked.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        store.join(&tx).unwrap().send_in(&orders(), text("x")).unwrap();
        tx.commit().unwrap();
        assert_eq!(texts(&store).await, ["x"]);
    });
}

/// Parts of a program may join the same transaction one inside the other, and undo a part of it by a savepoint.
#[test]
fn a_transaction_may_be_joined_more_than_once() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        let mut own = place.connect();
        let mut tx = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        {
            let (outer, inner) = (store.join(&tx).unwrap(), store.join(&tx).unwrap());
            for joined in [&outer, &inner, &outer, &inner] {
                joined.send_in(&orders(), text("x")).unwrap();
            }
        }
        let mut part = tx.savepoint().unwrap();
        part.execute_batch("CREATE TABLE undone (id INTEGER)").unwrap();
        part.rollback().unwrap();
        drop(part);
        store.join(&tx).unwrap().send_batch_in(&orders(), &[text("y"), text("z")]).unwrap();
        tx.commit().unwrap();
        assert_eq!(texts(&store).await, ["x", "x", "x", "x", "y", "z"]);
        // The store's own sends go on behind them.
        store.send(&orders(), text("after")).await.unwrap();
        assert_eq!(texts(&store).await.last().unwrap(), "after");
    });
}

#[test]
fn a_transaction_that_sqlite_rolled_back_takes_no_more_calls() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        let mut own = effects(&place);
        own.execute("INSERT INTO effect VALUES (1)", []).unwrap();
        let tx = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let joined = store.join(&tx).unwrap();
        joined.send_in(&orders(), text("undone")).unwrap();
        assert!(tx.execute("INSERT OR ROLLBACK INTO effect VALUES (1)", []).is_err());
        refused(joined.send_in(&orders(), text("by itself")), Kind::Unavailable, "rolled_back");
        drop(joined);
        drop(tx);
        assert!(texts(&store).await.is_empty());
        store.send(&orders(), text("after")).await.unwrap();
        assert_eq!(texts(&store).await, ["after"]);
    });
}

#[test]
fn sleepers_are_woken_after_the_callers_commit() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        let grant = claim(&store, "w1", 0, MINUTE).await;
        let mut own = place.connect();
        let mut messages = store.wakes(&Topic::Messages(orders()));
        let mut slots = store.wakes(&Topic::Slots(billing()));
        let tx = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let joined = store.join(&tx).unwrap();
        joined.send_in(&orders(), text("x")).unwrap();
        joined.release_in(&grant.token).unwrap();
        drop(joined);
        tx.commit().unwrap();
        for sleeper in [&mut messages, &mut slots] {
            tokio::time::timeout(PATIENCE, sleeper.woken()).await.expect("a wake-up comes").unwrap();
        }
        assert_eq!(texts(&store).await, ["x"]);
    });
}

/// The instant by which a joined call decides is the engine's, and what it recorded is not undercut by the store.
#[test]
fn ids_and_instants_go_on_across_joined_and_own_transactions() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        let mut own = place.connect();
        let mut last = 0;
        for round in 0..20 {
            let id = if round % 2 == 0 {
                store.send(&orders(), text("own")).await.unwrap()
            } else {
                let tx = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
                let id = store.join(&tx).unwrap().send_in(&orders(), text("joined")).unwrap();
                tx.commit().unwrap();
                id
            };
            assert!(id.get() > last, "{id} after {last}");
            last = id.get();
        }
        assert_eq!(texts(&store).await.len(), 20);
        assert!(store.now().await.is_ok());
    });
}

/// Claims the slot that has messages waiting.
async fn slot_with_messages(store: &fencepost_sqlite::SqliteStore, time: Duration) -> fencepost_core::SlotToken {
    let slot = if status(store, 0).await.lag > 0 { 0 } else { 1 };
    claim(store, "w1", slot, time).await.token
}
