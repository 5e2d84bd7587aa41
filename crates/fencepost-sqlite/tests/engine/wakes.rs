//! Wake-ups across processes: what another process commits wakes a sleeper here, and while nobody sleeps nothing is polled.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use fencepost_core::{Closed, ConsumerPath, Queues, Slots, Store, Topic, WakeReceiver, Wakeups};
use fencepost_sqlite::{SqliteOptions, SqliteStore};

use crate::place::{PATIENCE, Place, billing, claim, orders, run, text};
use crate::puppet::{Puppet, await_word, play, say};

async fn woken(sleeper: &mut WakeReceiver) {
    tokio::time::timeout(PATIENCE, sleeper.woken()).await.expect("a wake-up comes").expect("the store is open");
}

/// A part: claims slot 0; then, a word at a time, sends, releases, claims and abandons, and drops the consumer.
fn do_what_wakes(file: &Path) {
    run(async {
        let store = SqliteStore::open(file, SqliteOptions::default()).await.unwrap();
        let grant = claim(&store, "w1", 0, Duration::from_secs(60)).await;
        say("claimed");
        await_word();
        store.send(&orders(), text("x")).await.unwrap();
        await_word();
        store.release_slot(&grant.token).await.unwrap();
        let grant = claim(&store, "w1", 0, Duration::from_secs(60)).await;
        say("claimed");
        await_word();
        store.abandon_slot(&grant.token).await.unwrap();
        await_word();
        fencepost_core::Consumers::drop_consumer(&store, &billing(), true).await.unwrap();
    });
}

#[test]
fn what_another_process_commits_wakes_a_sleeper_here() {
    play(do_what_wakes);
    run(async {
        let place = Place::new();
        let store = place.open_with(SqliteOptions::default().create(true)).await;
        crate::place::stage(&store).await;
        let mut other = Puppet::start(what_another_process_commits_wakes_a_sleeper_here, &place.file());
        assert_eq!(other.hear(), "claimed");

        let mut messages = store.wakes(&Topic::Messages(orders()));
        other.tell();
        woken(&mut messages).await;
        // Somebody who comes when the file is watched already misses nothing either.
        let mut slots = store.wakes(&Topic::Slots(billing()));
        other.tell();
        woken(&mut slots).await;
        assert_eq!(other.hear(), "claimed");
        // Neither does somebody who comes after everybody has left.
        drop((messages, slots));
        let mut slots = store.wakes(&Topic::Slots(billing()));
        other.tell();
        woken(&mut slots).await;
        other.tell();
        woken(&mut slots).await;
        other.end();
    });
}

/// A further store over the same file is as far away as another process.
#[test]
fn a_wake_up_concerns_whom_it_concerns() {
    run(async {
        let place = Place::new();
        let (here, there) = (place.stage().await, place.open().await);
        let other = ConsumerPath::new("orders", "other").unwrap();
        let mut concerned = here.wakes(&Topic::Messages(orders()));
        let mut strangers = [Topic::Messages(fencepost_core::QueueName::new("returns").unwrap()), Topic::Slots(other)]
            .map(|t| here.wakes(&t));
        for _ in 0..20 {
            there.send(&orders(), text("x")).await.unwrap();
            woken(&mut concerned).await;
        }
        here.close().await;
        for sleeper in &mut strangers {
            // Had it been woken, that would come first.
            assert_eq!(sleeper.woken().await, Err(Closed));
        }
    });
}

/// More at once than the watcher looks up one by one.
#[test]
fn a_flood_from_elsewhere_wakes_every_sleeper() {
    run(async {
        let place = Place::new();
        let (here, there) = (place.stage().await, place.open().await);
        let mut sleeper = here.wakes(&Topic::Messages(orders()));
        there.send_batch(&orders(), (0..10_001).map(|_| text("x")).collect()).await.unwrap();
        woken(&mut sleeper).await;
    });
}

/// A part: two stores, one with a sleeper. Says by how much each one's watcher ran while the other one's ran twenty times.
fn watch_the_watchers(file: &Path) {
    let watchers = || -> BTreeSet<u64> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().map_while(Result::ok);
        let is_watcher = |task: &std::fs::DirEntry| {
            std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim() == "fencepost-watch")
        };
        tasks.filter(is_watcher).map(|task| task.file_name().to_str().unwrap().parse().unwrap()).collect()
    };
    let turns = |task: u64| -> u64 {
        let status = std::fs::read_to_string(format!("/proc/self/task/{task}/status")).unwrap();
        let turns = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        turns.trim().parse().unwrap()
    };
    let wait_for_turns = |task: u64, more: u64| {
        let (from, since) = (turns(task), Instant::now());
        while turns(task) < from + more {
            assert!(since.elapsed() < PATIENCE, "a watcher with a sleeper looks again and again");
            std::thread::yield_now();
        }
    };
    run(async {
        // A thread names itself, so it may have begun and have no name yet.
        let new_watcher = |known: Option<u64>| loop {
            if let Some(task) = watchers().into_iter().find(|task| Some(*task) != known) {
                return task;
            }
            std::thread::yield_now();
        };
        let idle = SqliteStore::open(file, SqliteOptions::default()).await.unwrap();
        let first = new_watcher(None);
        let busy = SqliteStore::open(file, SqliteOptions::default()).await.unwrap();
        let second = new_watcher(Some(first));
        let turns_beside = |idle: u64, busy: u64| {
            // A thread that has just begun, or has just lost its sleeper, still has to go to sleep itself; and the other one looks often
            // at first, so fewer turns of it would be over before one that looks seldom has looked at all.
            wait_for_turns(busy, 60);
            let before = turns(idle);
            wait_for_turns(busy, 20);
            turns(idle) - before
        };
        let sleeper = busy.wakes(&Topic::Messages(orders()));
        say(format!("idle ran {}", turns_beside(first, second)));

        // And it ends with the last sleeper.
        drop(sleeper);
        let other = idle.wakes(&Topic::Messages(orders()));
        say(format!("idle ran {}", turns_beside(second, first)));
        drop(other);
    });
}

#[test]
fn while_nobody_sleeps_nothing_is_polled() {
    play(watch_the_watchers);
    let place = Place::new();
    run(async { place.stage().await.close().await });
    let puppet = Puppet::start(while_nobody_sleeps_nothing_is_polled, &place.file());
    assert_eq!(puppet.hear(), "idle ran 0");
    assert_eq!(puppet.hear(), "idle ran 0");
    puppet.end();
}
