//! Processes that are killed and stopped while they own something, in real time: the only place where tests wait for a TTL.

use std::path::Path;
use std::time::{Duration, Instant};

use fencepost_core::{
    AcquireLease, Acquired, ClaimSlot, HolderName, Kind, LeaseName, Leases, Queues, Slots, WorkerName,
};
use fencepost_sqlite::{SqliteOptions, SqliteStore, driver_error};

use crate::place::{Place, billing, claim, index, orders, refused, run, status, text, texts, ttl};
use crate::puppet::{Puppet, await_word, play, say};

const TTL: Duration = Duration::from_secs(1);

fn real() -> SqliteOptions {
    SqliteOptions::default()
}

/// A part: claims slot 0, receives, and holds the batch open until it is killed.
fn hold_a_batch(file: &Path) {
    run(async {
        let store = SqliteStore::open(file, real()).await.unwrap();
        let grant = claim(&store, "w1", 0, TTL).await;
        let batch = store.receive(&grant.token, Default::default()).await.unwrap().unwrap();
        let ids: Vec<String> = batch.messages.iter().map(|message| message.id.to_string()).collect();
        say(format!("{} {}", grant.token.epoch, ids.join(",")));
        await_word();
    });
}

/// A18, and "takeover after kill -9 within TTL + 250 ms" of the numbers to reach.
#[test]
fn a_killed_owners_batch_is_taken_over_within_its_ttl_and_a_quarter_second() {
    play(hold_a_batch);
    run(async {
        let place = Place::new();
        let store = place.open_with(real().create(true)).await;
        crate::place::stage(&store).await;
        store.send_batch(&orders(), (0..10).map(|n| text(n.to_string())).collect()).await.unwrap();
        let other = claim(&store, "w3", 1, Duration::from_secs(60)).await;
        let mut owner =
            Puppet::start(a_killed_owners_batch_is_taken_over_within_its_ttl_and_a_quarter_second, &place.file());
        let said = owner.hear();
        let (epoch, ids) = said.split_once(' ').unwrap();
        let (slot_before, other_before) = (status(&store, 0).await, status(&store, 1).await);
        owner.kill();
        let killed = Instant::now();

        let request = ClaimSlot::new(billing(), WorkerName::new("w2").unwrap()).ttl(ttl(Duration::from_secs(60)));
        let heir = loop {
            if let Some(grant) = store.claim(&request).await.unwrap() {
                break grant;
            }
            assert!(killed.elapsed() < TTL + Duration::from_millis(250), "the batch is not taken over");
            tokio::task::yield_now().await;
        };
        let granted_at = fencepost_core::Store::now(&store).await.unwrap();
        assert!(granted_at >= slot_before.state.owner.as_ref().unwrap().expires_at, "not before its expiry");
        assert_eq!(heir.token.slot, index(0));
        assert!(heir.token.epoch.get() > epoch.parse().unwrap());

        let batch = store.receive(&heir.token, Default::default()).await.unwrap().unwrap();
        let again: Vec<String> = batch.messages.iter().map(|message| message.id.to_string()).collect();
        assert_eq!((again.join(",").as_str(), batch.deliveries, batch.crashes), (ids, 2, 1));
        assert_eq!(store.ack(&heir.token, batch.id).await.unwrap() as usize, batch.messages.len());
        let after = status(&store, 0).await;
        assert_eq!((after.lag, after.state.batch), (0, None));
        assert!(store.receive(&heir.token, Default::default()).await.unwrap().is_none(), "the cursor moved once");
        assert_eq!(status(&store, 1).await, other_before);
        assert!(store.receive(&other.token, Default::default()).await.unwrap().is_some());
    });
}

/// A part: stops to be stopped inside a write transaction, with a row in hand.
fn stand_in_a_transaction(file: &Path) {
    run(async {
        let store = SqliteStore::open(file, real().write_bound(Duration::from_secs(60))).await.unwrap();
        let sent = store
            .write(|tx| {
                tx.execute_batch("CREATE TABLE effect (id INTEGER); INSERT INTO effect VALUES (1)")
                    .map_err(driver_error)?;
                say("inside");
                await_word();
                tx.send_in(&orders(), text("late"))
            })
            .await;
        say(format!("ended {}", sent.is_ok()));
    });
}

/// A24 on SQLite: every writer of the file waits for it, for no longer than its bound; readers and openers do not.
#[test]
fn a_process_stopped_inside_a_write_transaction_makes_writers_busy_and_nothing_else() {
    const BOUND: Duration = Duration::from_millis(500);
    play(stand_in_a_transaction);
    run(async {
        let place = Place::new();
        let store = place.open_with(real().create(true)).await;
        crate::place::stage(&store).await;
        store.send(&orders(), text("early")).await.unwrap();
        let mut stopped = Puppet::start(
            a_process_stopped_inside_a_write_transaction_makes_writers_busy_and_nothing_else,
            &place.file(),
        );
        assert_eq!(stopped.hear(), "inside");
        stopped.freeze();

        // Opening the current schema takes no lock, and so does whatever only looks.
        let second = place.open_with(real().busy_timeout(BOUND)).await;
        assert_eq!(second.queue_status().await.unwrap()[0].stored, 1);
        let before = (status(&second, 0).await, status(&second, 1).await);
        let started = Instant::now();
        let request = ClaimSlot::new(billing(), WorkerName::new("w1").unwrap());
        let lease = AcquireLease::new(LeaseName::new("lease").unwrap(), HolderName::new("h").unwrap());
        let queue = orders();
        let (sent, claimed, acquired) =
            tokio::join!(second.send(&queue, text("never")), second.claim(&request), second.acquire_lease(&lease));
        let waited = started.elapsed();
        refused(sent, Kind::Busy, "busy");
        refused(claimed, Kind::Busy, "busy");
        refused(acquired, Kind::Busy, "busy");
        assert!(waited >= BOUND && waited < 3 * BOUND, "{waited:?}");
        assert_eq!((status(&second, 0).await, status(&second, 1).await), before);

        stopped.thaw();
        stopped.tell();
        assert_eq!(stopped.hear(), "ended true");
        second.send(&orders(), text("after")).await.unwrap();
        assert_eq!(texts(&store).await, ["early", "late", "after"]);
        stopped.end();
    });
}

/// The same process killed instead: its transaction never was, and the lock is free at once.
#[test]
fn a_process_killed_inside_a_write_transaction_leaves_nothing_of_it() {
    play(stand_in_a_transaction);
    run(async {
        let place = Place::new();
        let store = place.open_with(real().create(true)).await;
        crate::place::stage(&store).await;
        let mut killed = Puppet::start(a_process_killed_inside_a_write_transaction_leaves_nothing_of_it, &place.file());
        assert_eq!(killed.hear(), "inside");
        killed.freeze();
        killed.kill();
        store.send(&orders(), text("after")).await.unwrap();
        assert_eq!(texts(&store).await, ["after"]);
        assert!(place.connect().prepare("SELECT id FROM effect").is_err());
    });
}

/// B17. Early is wrong on any machine; late may be the machine's fault, so that is tried again.
#[test]
fn a_ttl_of_one_second_excludes_for_one_second() {
    const TOLERANCE: Duration = Duration::from_millis(50);
    run(async {
        let place = Place::new();
        let store = place.open_with(real().create(true)).await;
        let name = |n: u32| LeaseName::new(format!("lease-{n}")).unwrap();
        let mut excluded = Vec::new();
        for attempt in 0..5 {
            let request = AcquireLease::new(name(attempt), HolderName::new("h").unwrap()).ttl(ttl(TTL));
            let asked = Instant::now();
            assert!(matches!(store.acquire_lease(&request).await.unwrap(), Acquired::Granted { .. }));
            let granted = Instant::now();
            let (asked_again, granted_again) = loop {
                let before = Instant::now();
                if let Acquired::Granted { .. } = store.acquire_lease(&request).await.unwrap() {
                    break (before, Instant::now());
                }
            };
            let (least, most) = (asked_again - granted, granted_again - asked);
            assert!(most >= TTL - TOLERANCE, "granted again after {most:?}");
            if least <= TTL + TOLERANCE {
                return;
            }
            excluded.push(least);
        }
        panic!("excluded for {excluded:?}");
    });
}
