//! Everybody at once on the same few slots: whatever is called in whatever order, nobody is in a deadlock and nothing is made twice.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fencepost_test_support::Random;
use tokio_postgres::Client;

use crate::script::{Own, Script};

const WORKERS: u64 = 8;

/// How long, unless `FENCEPOST_MIXED_SECONDS` says otherwise.
const SECONDS: u64 = 4;

/// States that a caller may be told of, beside those of the contract's own class.
const ALLOWED: [&str; 5] = ["55006", "55P03", "42704", "42710", "22023"];

/// What one worker knows: the slot that it was granted last, and the last batch with one of its messages.
struct Worker {
    client: Client,
    random: Random,
    own: Own,
    batch: i64,
    message: i64,
    /// How often each call was answered, or refused with which state.
    told: BTreeMap<String, u64>,
}

impl Worker {
    fn any(&mut self, consumer: u64) -> (&'static str, String) {
        let max = 1 + self.random.below(9);
        let Own { slot, epoch } = self.own;
        let own = format!("'q', 'c{consumer}', {slot}, {epoch}");
        let (batch, message) = (self.batch, self.message);
        match self.random.below(40) {
            0..=5 => ("claim", format!("slot, epoch from fencepost.claim('q', 'c{consumer}', 'w', '100 ms')")),
            6..=12 => ("receive", format!("batch_id, id from fencepost.receive({own}, {max})")),
            13..=16 => ("ack", format!("fencepost.ack({own}, {batch})")),
            17..=19 => ("ack_receive", format!("batch_id, id from fencepost.ack_receive({own}, {batch}, {max})")),
            20 => ("ack_through", format!("fencepost.ack_through({own}, {batch}, {message})")),
            21..=23 => ("nack", format!("* from fencepost.nack({own}, {batch}, {message}, '0 s')")),
            24 => ("dead_letter", format!("fencepost.dead_letter({own}, {batch}, {message}, 'no')")),
            25 => ("dead_replay", format!("fencepost.dead_replay('q', 'c{consumer}')")),
            26 => ("renew", format!("fencepost.renew_slot({own})")),
            27 => (
                "heartbeat",
                format!(
                    "* from fencepost._heartbeat('q', 'c{consumer}', 'm{}', 'w', '1 s', array[{slot}], array[{epoch}::bigint])",
                    max % 4
                ),
            ),
            28 => ("release", format!("fencepost.release_slot({own})")),
            29 => ("abandon", format!("fencepost.abandon_slot({own})")),
            30 => ("force_release", format!("fencepost.force_release_slot('q', 'c{consumer}', {slot}, 'an operator')")),
            31 => ("guard", format!("fencepost.slot_guard({own})")),
            32 => ("maintain", "fencepost.maintain()".to_owned()),
            33 => ("status", "count(*) from fencepost.slot_status".to_owned()),
            34 => ("create", format!("fencepost.create_consumer('q', 'c{consumer}', 3, on_failure => 'pause')")),
            35 if max < 5 => ("drop", format!("fencepost.drop_consumer('q', 'c{consumer}', {})", max == 1)),
            36 if max == 1 => ("drop_queue", "fencepost.drop_queue('q', true)".to_owned()),
            36 => ("create_queue", "fencepost.create_queue('q', 8)".to_owned()),
            37 => ("send_once", format!("* from fencepost.send_once('q', 'x', 'once{max}', '1 s')")),
            _ => ("send", format!("fencepost.send('q', 'x', key => 'k{max}')")),
        }
    }

    async fn step(&mut self, (name, sql): (&'static str, String)) {
        let told = match self.client.query(&format!("select {sql}"), &[]).await {
            Ok(rows) => {
                if let (Some(row), "claim") = (rows.first(), name) {
                    self.own = Own { slot: row.get(0), epoch: row.get(1) };
                } else if let (Some(row), "receive" | "ack_receive") = (rows.first(), name) {
                    (self.batch, self.message) = (row.get(0), row.get(1));
                }
                if rows.is_empty() { "nothing".to_owned() } else { "ok".to_owned() }
            }
            Err(error) => match error.as_db_error() {
                // What the functions themselves found to be wrong is no drop.
                Some(reported)
                    if reported.code().code() == "XX000"
                        && reported.detail().is_some_and(|detail| detail.contains("\"code\"")) =>
                {
                    format!("{} {}", reported.message(), reported.detail().unwrap_or_default())
                }
                Some(reported) => reported.code().code().to_owned(),
                None => error.to_string(),
            },
        };
        *self.told.entry(format!("{name} {told}")).or_default() += 1;
    }

    /// One call, or several on one slot and its queue in a transaction that commits or not: who locks several slots in one transaction takes
    /// them in their order.
    async fn turn(&mut self) {
        let consumer = self.random.below(2);
        let called = self.any(consumer);
        if self.random.below(6) > 0 {
            return self.step(called).await;
        }
        self.client.batch_execute("begin").await.expect("a transaction");
        for _ in 0..=self.random.below(5) {
            let called = self.any(consumer);
            if matches!(
                called.0,
                "receive" | "ack" | "ack_receive" | "ack_through" | "nack" | "dead_letter" | "renew" | "guard" | "send"
            ) {
                self.step(called).await;
            }
        }
        let end = if self.random.below(3) == 0 { "rollback" } else { "commit" };
        self.client.batch_execute(end).await.expect("its end");
    }
}

/// A31: no deadlock and no unique violation, whatever is called beside what.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a31_every_mix_of_calls_is_free_of_deadlocks() {
    let Some(script) = Script::new(1).await else { return };
    // Expiry is of this test: the server's own clock.
    let clock = "create or replace function fencepost._clock() returns timestamptz language sql volatile as $$ select pg_catalog.clock_timestamp() $$";
    crate::script::run(&script.admin, clock).await;
    let asked = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seed: u64 = asked("FENCEPOST_SEED").unwrap_or(31);
    let until = Instant::now() + Duration::from_secs(asked("FENCEPOST_MIXED_SECONDS").unwrap_or(SECONDS));
    let mut workers = Vec::new();
    for worker in 0..WORKERS {
        let own = Own { slot: 0, epoch: 1 };
        let random = Random::seeded(seed << 8 | worker);
        let mut worker =
            Worker { client: script.client().await, random, own, batch: 1, message: 1, told: BTreeMap::new() };
        workers.push(tokio::spawn(async move {
            while Instant::now() < until {
                worker.turn().await;
            }
            worker.told
        }));
    }
    let mut told: BTreeMap<String, u64> = BTreeMap::new();
    for worker in workers {
        worker.await.unwrap().into_iter().for_each(|(what, count)| *told.entry(what).or_default() += count);
    }
    // What a call meets that is dropped beneath it; in a transaction what follows is aborted.
    let dropped = ["42P01", "42883", "23503", "XX000", "25P02"];
    let unexpected: Vec<_> = told
        .iter()
        .filter(|(what, _)| {
            let state = what.rsplit(' ').next().unwrap_or_default();
            let known = matches!(state, "ok" | "nothing")
                || state.starts_with("ZF")
                || ALLOWED.contains(&state)
                || dropped.contains(&state);
            !known
        })
        .collect();
    assert!(unexpected.is_empty(), "seed {seed}: {unexpected:?} of {told:?}");
    for call in [
        "claim ok",
        "receive ok",
        "ack ok",
        "nack ok",
        "ack_receive ok",
        "release ok",
        "create ok",
        "drop ok",
        "send ok",
    ] {
        assert!(told.contains_key(call), "seed {seed}: no {call} in {told:?}");
    }
}
