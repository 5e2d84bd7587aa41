//! Random orders of commits: writers that abort, roll back savepoints, prepare, and stay open for long, beside readers that receive
//! in every way there is. Everything committed is delivered once, and what one writer sent under one key comes in its order.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fencepost_test_support::{PgServer, Random, skip_or_fail};
use tokio_postgres::Client;

use crate::stage::{Reader, Received, Stage, ack, receive, send, wrong};

const SLOTS: i32 = 4;
const WRITERS: u64 = 8;

/// How long the writers write, unless `FENCEPOST_RANDOM_SECONDS` says otherwise.
const SECONDS: u64 = 6;

async fn run(client: &Client, sql: &str) {
    client.batch_execute(sql).await.expect(sql);
}

/// Sends under keys of its own, in transactions of every sort, and returns what it committed by key, in order.
async fn write(stage: Arc<Stage>, seed: u64, writer: u64, until: Instant) -> HashMap<String, Vec<i64>> {
    let (client, mut random) = (stage.client().await, Random::seeded(seed ^ (writer + 1) << 32));
    let mut committed: HashMap<String, Vec<i64>> = HashMap::new();
    let mut transactions = 0_u64;
    while Instant::now() < until {
        transactions += 1;
        let mut sent = Vec::new();
        run(&client, "BEGIN").await;
        for _ in 0..=random.below(4) {
            let key = format!("w{writer}-{}", random.below(6));
            if random.below(5) == 0 {
                run(&client, "SAVEPOINT s").await;
                send(&client, &key, "undone").await.expect("a send");
                run(&client, "ROLLBACK TO s").await;
            }
            sent.push((key.clone(), send(&client, &key, "kept").await.expect("a send")));
        }
        let open = match random.below(40) {
            0 => 1_500,
            1..=3 => 200,
            4..=12 => random.below(20),
            _ => 0,
        };
        tokio::time::sleep(Duration::from_millis(open)).await; // TIME: how long transactions stay open is what the test is about.
        match random.below(10) {
            0 | 1 => run(&client, "ROLLBACK").await,
            2 => {
                let name = format!("{}-{writer}-{transactions}", stage.database.name());
                run(&client, &format!("PREPARE TRANSACTION '{name}'")).await;
                let open = Duration::from_millis(random.below(60));
                tokio::time::sleep(open).await; // TIME: a prepared transaction stays open too.
                let kept = random.below(3) > 0;
                run(&client, &format!("{} PREPARED '{name}'", if kept { "COMMIT" } else { "ROLLBACK" })).await;
                if kept {
                    sent.into_iter().for_each(|(key, id)| committed.entry(key).or_default().push(id));
                }
            }
            _ => {
                run(&client, "COMMIT").await;
                sent.into_iter().for_each(|(key, id)| committed.entry(key).or_default().push(id));
            }
        }
    }
    committed
}

/// Receives from one slot in every way until told that the last writer is done and nothing more comes.
async fn read(stage: Arc<Stage>, seed: u64, slot: i32, written: Arc<AtomicBool>) -> Reader {
    let mut random = Random::seeded(seed ^ (u64::from(slot.unsigned_abs()) + 100) << 32);
    let mut reader = stage.reader(slot).await;
    loop {
        // ORDER: read before the receive; an empty one that began before the last commit proves nothing.
        let last = written.load(Ordering::SeqCst);
        if !step(&mut reader, &mut random).await && last {
            return reader;
        }
    }
}

/// One round of receiving; whether something was there.
async fn step(reader: &mut Reader, random: &mut Random) -> bool {
    let max = i32::try_from(1 + random.below(200) * random.below(2)).expect("a small number");
    let (slot, epoch) = (reader.slot, reader.epoch);
    match random.below(5) {
        0 => {
            // What a rolled back receive returned comes again.
            run(&reader.client, "BEGIN").await;
            let first = receive(&reader.client, slot, epoch, max, None).await.expect("a receive");
            run(&reader.client, "ROLLBACK").await;
            first.is_some()
        }
        1 => {
            // Received again it is the same, whatever has committed since.
            let Some(first) = receive(&reader.client, slot, epoch, max, None).await.expect("a receive") else {
                return false;
            };
            let again = receive(&reader.client, slot, epoch, 1, None).await.expect("a receive");
            if again.as_ref() != Some(&first) {
                reader.disagreed.push(format!("{first:?} came again as {again:?}"));
            }
            ack(&reader.client, slot, epoch, first.batch).await.expect("an ack");
            reader.delivered.extend(first.ids);
            true
        }
        2 => chain(reader, max).await,
        _ => reader.take(max).await,
    }
}

/// Sends, receives and acks with receives, all in one transaction.
async fn chain(reader: &mut Reader, max: i32) -> bool {
    let (slot, epoch) = (reader.slot, reader.epoch);
    let (client, key) = (&reader.client, format!("r{slot}"));
    run(client, "BEGIN").await;
    send(client, &key, "before").await.expect("a send");
    let mut taken: Vec<Received> =
        receive(client, slot, epoch, max, None).await.expect("a receive").into_iter().collect();
    while let Some(open) = taken.last().map(|received| received.batch) {
        send(client, &key, "between").await.expect("a send");
        match receive(client, slot, epoch, max, Some(open)).await.expect("an ack with a receive") {
            Some(next) if taken.len() < 3 => taken.push(next),
            Some(next) => {
                ack(client, slot, epoch, next.batch).await.expect("an ack");
                taken.push(next);
                break;
            }
            None => break,
        }
    }
    run(client, "COMMIT").await;
    let something = !taken.is_empty();
    reader.delivered.extend(taken.into_iter().flat_map(|received| received.ids));
    something
}

/// A43, B19: whatever the order of commits, each message once, and each writer's key in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a43_b19_every_random_order_of_commits_is_delivered_once() {
    let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
    let stage = Stage::new(&server, 16, SLOTS, None).await;
    let seed: u64 = std::env::var("FENCEPOST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_129);
    let seconds = std::env::var("FENCEPOST_RANDOM_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    run(&stage.admin, "ALTER SEQUENCE fencepost.q1_position CACHE 20").await;
    let stage = Arc::new(stage);
    // An open transaction that has nothing to do with the queue.
    let unrelated = stage.client().await;
    run(&unrelated, "BEGIN; SELECT pg_current_xact_id()").await;

    let (until, written) = (Instant::now() + Duration::from_secs(seconds), Arc::new(AtomicBool::new(false)));
    let readers: Vec<_> =
        (0..SLOTS).map(|slot| tokio::spawn(read(stage.clone(), seed, slot, written.clone()))).collect();
    let writers: Vec<_> = (0..WRITERS).map(|writer| tokio::spawn(write(stage.clone(), seed, writer, until))).collect();
    let mut committed: HashMap<String, Vec<i64>> = HashMap::new();
    for writer in writers {
        committed.extend(writer.await.expect("a writer ends"));
    }
    written.store(true, Ordering::SeqCst);
    let mut delivered = Vec::new();
    for reader in readers {
        let reader = reader.await.expect("a reader ends");
        assert!(reader.disagreed.is_empty(), "seed {seed}: {:?}", reader.disagreed);
        delivered.extend(reader.delivered);
    }
    // The readers' own sends went on after their own last receive.
    for slot in 0..SLOTS {
        let mut rest = stage.reader_again(slot).await;
        rest.drain().await;
        delivered.extend(rest.delivered);
    }
    let wrong = wrong(&stage.committed().await, &delivered);
    assert!(wrong.is_empty(), "seed {seed}: {} of {}: {wrong:?}", wrong.len(), delivered.len());
    assert!(delivered.len() > 500, "only {} messages went through", delivered.len());
    let place: HashMap<i64, usize> = delivered.iter().enumerate().map(|(place, id)| (*id, place)).collect();
    for (key, ids) in committed {
        let places: Vec<usize> = ids.iter().map(|id| place[id]).collect();
        assert!(places.is_sorted(), "seed {seed}: key {key} came out of order: {ids:?}");
    }
}
