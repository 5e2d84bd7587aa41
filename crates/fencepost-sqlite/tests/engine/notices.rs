//! Notices beyond the contract: callers' own transactions, other processes, and what is removed.

use std::path::Path;
use std::time::Duration;

use fencepost_core::{ChannelName, NOTICES_KEPT, Notice, NoticePayload, NoticeReceiver, Notices, Queues};
use fencepost_sqlite::rusqlite::{Connection, TransactionBehavior};
use fencepost_sqlite::{SqliteOptions, SqliteStore};

use crate::place::{PATIENCE, Place, run};
use crate::puppet::{Puppet, await_word, play};

fn channel() -> ChannelName {
    ChannelName::new("c").unwrap()
}

fn payload(text: &str) -> NoticePayload {
    NoticePayload::new(text).unwrap()
}

async fn next(receiver: &mut NoticeReceiver) -> Notice {
    tokio::time::timeout(PATIENCE, receiver.next()).await.expect("a notice comes").expect("the store is open")
}

async fn heard(receiver: &mut NoticeReceiver) -> String {
    match next(receiver).await {
        Notice::Payload { payload, .. } => payload.as_str().to_owned(),
        other => panic!("{other:?} in place of a payload"),
    }
}

fn count(file: &Connection) -> i64 {
    file.query_row("SELECT count(*) FROM fencepost_notice", [], |row| row.get(0)).unwrap()
}

/// Appends rows as old as the epoch, without a word to any store.
fn fill(file: &Connection, many: u32) {
    file.execute(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)
         INSERT INTO fencepost_notice (channel, payload, at) SELECT 'd', 'old', 0 FROM n",
        [many],
    )
    .unwrap();
}

/// A part: notifies, a word at a time.
fn notify_twice(file: &Path) {
    run(async {
        let store = SqliteStore::open(file, SqliteOptions::default()).await.unwrap();
        for text in ["1", "2"] {
            await_word();
            store.notify(&channel(), &payload(text)).await.unwrap();
        }
    });
}

#[test]
fn what_another_process_notifies_is_heard_here() {
    play(notify_twice);
    run(async {
        let place = Place::new();
        let store = place.open_with(SqliteOptions::default().create(true)).await;
        let mut other = Puppet::start(what_another_process_notifies_is_heard_here, &place.file());
        let mut receiver = store.listen(&channel()).await.unwrap();
        for text in ["1", "2"] {
            other.tell();
            assert_eq!(heard(&mut receiver).await, text);
        }
        other.end();
    });
}

/// What a caller's own connection commits is heard, and what it rolls back never is.
#[test]
fn a_notice_in_a_joined_transaction_is_heard_once_it_commits() {
    run(async {
        let place = Place::new();
        let store = place.open().await;
        let mut receiver = store.listen(&channel()).await.unwrap();
        let mut own = place.connect();
        for (text, commits) in [("never", false), ("joined", true)] {
            let tx = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
            store.join(&tx).unwrap().notify_in(&channel(), &payload(text)).unwrap();
            if commits { tx.commit() } else { tx.rollback() }.unwrap();
        }
        assert_eq!(heard(&mut receiver).await, "joined");
        store.notify(&channel(), &payload("last")).await.unwrap();
        assert_eq!(heard(&mut receiver).await, "last");
    });
}

/// B30: what is removed before a listener saw it is told of, in its place.
#[test]
fn b30_a_listener_hears_a_resync_where_notices_are_gone() {
    run(async {
        let place = Place::new();
        let store = place.open().await;
        store.notify(&channel(), &payload("before")).await.unwrap();
        let mut receiver = store.listen(&channel()).await.unwrap();
        store.notify(&channel(), &payload("seen")).await.unwrap();
        assert_eq!(heard(&mut receiver).await, "seen");
        // What it has seen may go without a word.
        place.clock.advance(Duration::from_secs(601));
        assert_eq!(store.maintain(None).await.unwrap(), 1);
        store.notify(&channel(), &payload("also seen")).await.unwrap();
        assert_eq!(heard(&mut receiver).await, "also seen");
        // One commit, so that no look comes between.
        let mut own = place.connect();
        let tx = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        for text in ["missed", "kept"] {
            store.join(&tx).unwrap().notify_in(&channel(), &payload(text)).unwrap();
        }
        tx.execute("DELETE FROM fencepost_notice WHERE payload = 'missed'", []).unwrap();
        tx.commit().unwrap();
        assert_eq!(next(&mut receiver).await, Notice::Resync);
        assert_eq!(heard(&mut receiver).await, "kept");
    });
}

/// Notices go by their age and by their number, in part by later ones and the rest by maintenance; the last one stays.
#[test]
fn notices_are_removed_by_age_and_by_number() {
    run(async {
        let place = Place::new();
        let store = place.open().await;
        let file = place.connect();
        fill(&file, 600);
        store.notify(&channel(), &payload("601")).await.unwrap();
        assert_eq!(count(&file), 601);
        for n in 602..=768 {
            store.notify(&channel(), &payload(&n.to_string())).await.unwrap();
        }
        assert_eq!(count(&file), 768 - 512, "the one that was asked to has removed so many");
        assert!(store.maintain(None).await.unwrap() > 0);
        assert_eq!(count(&file), 168);
        assert_eq!(store.maintain(None).await.unwrap(), 0);
        place.clock.advance(Duration::from_secs(601));
        store.maintain(None).await.unwrap();
        assert_eq!(count(&file), 1, "the last one stays, so that no number comes twice");
        file.execute("UPDATE fencepost_notice SET at = ?1", [i64::MAX]).unwrap();
        let many = NOTICES_KEPT + 5_000;
        file.execute(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)
             INSERT INTO fencepost_notice (channel, payload, at) SELECT 'd', 'young', ?2 FROM n",
            (many, i64::MAX),
        )
        .unwrap();
        assert_eq!(store.maintain(None).await.unwrap(), 3, "so many steps of 2,000");
        assert_eq!(count(&file), i64::from(NOTICES_KEPT));
    });
}

/// Who begins to listen while nobody did gets nothing of what is kept, however much it is.
#[test]
fn what_is_kept_is_not_delivered_to_who_comes_later() {
    run(async {
        let place = Place::new();
        let (here, there) = (place.open().await, place.open().await);
        let file = place.connect();
        for round in 0..3 {
            fill(&file, 3_000);
            there.notify(&channel(), &payload("before")).await.unwrap();
            let mut receiver = here.listen(&channel()).await.unwrap();
            fill(&file, 3_000);
            there.notify(&channel(), &payload(&round.to_string())).await.unwrap();
            assert_eq!(heard(&mut receiver).await, round.to_string());
        }
    });
}
