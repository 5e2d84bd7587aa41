//! Durability: whatever was acknowledged is found again in every state that a crash could leave behind.
//!
//! A state that a crash could leave is the file and its write-ahead log at one instant. No order of copying them gives that while a
//! checkpoint may run in between, so the process is stopped first, at any instant whatever it is doing, and both are copied then.
//! `-shm` is never copied: it does not survive a crash of the host.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use fencepost_core::{
    AcquireLease, Acquired, BatchSize, Epoch, HolderName, Key, LeaseName, Leases, Queues, Release, Slots, Store,
};
use fencepost_sqlite::rusqlite::Connection;
use fencepost_sqlite::{SqliteOptions, SqliteStore};

use crate::place::{Place, claim, copy, messages, orders, run, stage, status, text};
use crate::puppet::{Puppet, play, say};

/// Senders of the puppet, each with a key of its own.
const SENDERS: usize = 4;

/// A part: sends, acks and takes a lease again and again, and says what was acknowledged.
fn work_for_ever(file: &Path) {
    run(async {
        let store = SqliteStore::open(file, SqliteOptions::default().create(true)).await.unwrap();
        stage(&store).await;
        let done: BTreeMap<usize, u64> = last_sent(&messages(&store).await);
        say("open");
        for sender in 0..SENDERS {
            let (store, from) = (store.clone(), done.get(&sender).map_or(0, |last| last + 1));
            tokio::spawn(async move {
                for n in from.. {
                    // Two kilobytes each, so that the log is written back to the file every few hundred messages.
                    let payload = format!("{sender}:{n}:{}", "x".repeat(2_000));
                    let message = text(payload).key(Key::new(format!("key-{sender}")).unwrap());
                    let id = store.send(&orders(), message).await.unwrap();
                    say(format!("sent {sender} {n} {id}"));
                }
            });
        }
        let request = AcquireLease::new(LeaseName::new("lease").unwrap(), HolderName::new("puppet").unwrap());
        let mut token = claim_when_expired(&store).await;
        loop {
            while let Some(batch) = store.receive(&token, BatchSize::new(7).unwrap()).await.unwrap() {
                store.ack(&token, batch.id).await.unwrap();
                say(format!("acked {} {}", batch.id, batch.messages.last().unwrap().id));
            }
            store.release_slot(&token).await.unwrap();
            token = claim_when_expired(&store).await;
            if let Acquired::Granted { token, .. } = store.acquire_lease(&request).await.unwrap() {
                say(format!("granted {}", token.epoch));
                assert_eq!(store.release_lease(&token).await.unwrap(), Release::Released);
            }
        }
    });
}

/// An earlier puppet may have been killed while it held the slot.
async fn claim_when_expired(store: &SqliteStore) -> fencepost_core::SlotToken {
    use fencepost_core::{ClaimSlot, WorkerName};
    let request = ClaimSlot::new(crate::place::billing(), WorkerName::new("puppet").unwrap())
        .ttl(crate::place::ttl(Duration::from_secs(1)));
    loop {
        if let Some(grant) = store.claim_slot(&request, crate::place::index(0)).await.unwrap() {
            return grant.token;
        }
        tokio::task::yield_now().await;
    }
}

fn last_sent(messages: &[(i64, String)]) -> BTreeMap<usize, u64> {
    messages.iter().map(|(_, text)| parse(text)).collect()
}

fn parse(text: &str) -> (usize, u64) {
    let mut parts = text.split(':');
    (parts.next().unwrap().parse().unwrap(), parts.next().unwrap().parse().unwrap())
}

/// What was acknowledged, as the puppet said.
#[derive(Debug, Default)]
struct Acknowledged {
    sent: BTreeMap<(usize, u64), i64>,
    acked: Option<(i64, i64)>,
    epoch: i64,
}

impl Acknowledged {
    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<i64>().unwrap();
        match words[0] {
            "sent" => drop(self.sent.insert((number(1) as usize, number(2) as u64), number(3))),
            "acked" => self.acked = Some((number(1), number(2))),
            "granted" => self.epoch = number(1),
            _ => {}
        }
    }

    /// Checks that a store that was opened after a crash has all of it.
    async fn check(&self, store: &SqliteStore) {
        let found = messages(store).await;
        let by_id: BTreeMap<i64, (usize, u64)> = found.iter().map(|(id, text)| (*id, parse(text))).collect();
        for (message, id) in &self.sent {
            assert_eq!(by_id.get(id), Some(message), "message {id} was acknowledged");
        }
        for sender in 0..SENDERS {
            let order: Vec<u64> =
                found.iter().map(|(_, text)| parse(text)).filter(|(by, _)| *by == sender).map(|(_, n)| n).collect();
            assert!(order.iter().copied().eq(0..order.len() as u64), "sender {sender} is in order, without a gap");
        }
        let slot = status(store, 0).await.state;
        if let Some((batch, message)) = self.acked {
            assert!(
                slot.last_acked.is_some_and(|last| last.get() >= batch),
                "batch {batch} was acknowledged: {slot:?}"
            );
            assert!(slot.cursor.to_storage() >= message, "the cursor is past message {message}: {slot:?}");
        }
        let leases = store.lease_status().await.unwrap();
        let epoch = leases.first().and_then(|lease| lease.state.epoch).map_or(0, Epoch::get);
        assert!(epoch >= self.epoch, "epoch {} was granted, the store knows {epoch}", self.epoch);
    }
}

fn is_whole(file: &Path) {
    let verdict: String =
        Connection::open(file).unwrap().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}

/// Instants that differ from round to round and are the same in every run.
fn seeded(round: u64) -> u64 {
    // SplitMix64 (Steele, Lea, Flood, 2014).
    let mut z = (round + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn hear_some(puppet: &Puppet, acknowledged: &mut Acknowledged, lines: u64) {
    (0..lines).for_each(|_| acknowledged.hear(&puppet.hear()));
}

#[test]
fn everything_acknowledged_is_in_every_state_that_a_crash_could_leave() {
    play(work_for_ever);
    let place = Place::new();
    let puppet = Puppet::start(everything_acknowledged_is_in_every_state_that_a_crash_could_leave, &place.file());
    let mut acknowledged = Acknowledged::default();
    for round in 0..12 {
        hear_some(&puppet, &mut acknowledged, 1 + seeded(round) % 400);
        puppet.freeze();
        puppet.heard_so_far().iter().for_each(|line| acknowledged.hear(line));
        let crashed = Place::new();
        copy(&[place.file(), place.path("app.db-wal")], &crashed.path(""));
        puppet.thaw();

        if round % 3 == 2 {
            // A write that the crash has torn: the beginning of a frame, and whatever was on the disk.
            let torn: Vec<u8> = (0..1_500).map(|n| seeded(round * 10_000 + n) as u8).collect();
            let log = std::fs::File::options().append(true).open(crashed.path("app.db-wal"));
            std::io::Write::write_all(&mut log.unwrap(), &torn).unwrap();
        }
        run(async {
            let store = SqliteStore::open(crashed.file(), SqliteOptions::default()).await.unwrap();
            acknowledged.check(&store).await;
            assert!(store.send(&orders(), text("0:0")).await.is_ok());
            store.close().await;
        });
        is_whole(&crashed.file());
    }
    assert!(acknowledged.sent.len() > 100 && acknowledged.acked.is_some(), "{}", acknowledged.sent.len());
}

#[test]
fn nothing_acknowledged_is_missing_after_kill_9() {
    play(work_for_ever);
    let place = Place::new();
    let mut acknowledged = Acknowledged::default();
    for round in 100..104 {
        let mut puppet = Puppet::start(nothing_acknowledged_is_missing_after_kill_9, &place.file());
        hear_some(&puppet, &mut acknowledged, 50 + seeded(round) % 500);
        puppet.kill();
        puppet.heard_so_far().iter().for_each(|line| acknowledged.hear(line));
        run(async {
            let store = SqliteStore::open(place.file(), SqliteOptions::default()).await.unwrap();
            acknowledged.check(&store).await;
            assert!(store.now().await.is_ok());
            store.close().await;
        });
        is_whole(&place.file());
    }
}

/// The grant that a dead process held is as it was: its token is the owner's until somebody takes over.
#[test]
fn a_grant_survives_the_process_that_got_it() {
    run(async {
        let place = Place::new();
        let store = place.stage().await;
        let grant = claim(&store, "w1", 0, Duration::from_secs(60)).await;
        let before = status(&store, 0).await;
        let crashed = Place::new();
        copy(&[place.file(), place.path("app.db-wal")], &crashed.path(""));
        store.close().await;
        let again = place.open().await;
        assert_eq!(status(&again, 0).await, before);
        assert_eq!(again.release_slot(&grant.token).await.unwrap(), Release::Released);
    });
}
