//! The server is killed and started again under load.

#![cfg(feature = "postgres")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fencepost::postgres::{PostgresOptions, PostgresStore, TransactionCalls, driver_error};
use fencepost::runtime::{
    BatchHandler, CancellationToken, Done, HandlerError, SlotContext, Worker, WorkerSettings, async_trait,
};
use fencepost::{
    Batch, BatchSize, ConsumerPath, Consumers, CreateConsumer, Key, Kind, NewMessage, Partitions, Queues, SlotCount,
    Ttl, WorkerName,
};
use fencepost_test_support::{DEFAULT_MAJOR, PgServer, skip_or_fail};

/// How long anything may take that must come.
const PATIENCE: Duration = Duration::from_secs(90);

const KILLS: u32 = 3;
const KEYS: u64 = 12;

/// Handlings in the order in which they came, each with its key and its number.
type Seen = Arc<Mutex<Vec<(u64, u64)>>>;

/// What a message says of itself.
fn numbers(payload: &[u8]) -> (u64, u64) {
    let (key, number) = std::str::from_utf8(payload).unwrap().split_once('/').unwrap();
    (key.parse().unwrap(), number.parse().unwrap())
}

/// Writes down what it handles; with a store, in the database and with the ack.
struct Records {
    effects: Option<PostgresStore>,
    seen: Seen,
}

#[async_trait]
impl BatchHandler for Records {
    async fn handle(&self, batch: &Batch, slot: &SlotContext) -> Result<Done, HandlerError> {
        let Some(store) = &self.effects else {
            let mut seen = self.seen.lock().unwrap();
            seen.extend(batch.messages.iter().map(|message| numbers(&message.payload)));
            return Ok(Done::Ack);
        };
        let mut client = store.client().await?;
        let transaction = client.transaction().await.map_err(driver_error)?;
        for message in &batch.messages {
            let (key, number) = numbers(&message.payload);
            let values: [&(dyn fencepost::postgres::tokio_postgres::types::ToSql + Sync); 2] =
                [&key.cast_signed(), &number.cast_signed()];
            let insert = "INSERT INTO effect (key, number) VALUES ($1, $2)";
            transaction.execute(insert, &values).await.map_err(driver_error)?;
        }
        transaction.ack_in(&slot.token, batch.id).await?;
        transaction.commit_whole().await?;
        Ok(Done::Acked)
    }
}

fn path(consumer: &str) -> ConsumerPath {
    ConsumerPath::new("orders", consumer).unwrap()
}

/// The server is killed with SIGKILL three times while messages are sent and handled, and started again at once. Sends that fail say that
/// nothing was stored, or that nobody knows. The workers go on by themselves. Every message that was answered is handled; by the consumer whose
/// effects are committed with the acks exactly once, by the other one at least once; each key in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_under_load_loses_nothing_that_was_answered() {
    let Some(server) = skip_or_fail(PgServer::private(DEFAULT_MAJOR).await) else { return };
    let database = server.database().await.unwrap();
    let open =
        || async { PostgresStore::open(&database.url(), PostgresOptions::default().create(true)).await.unwrap() };
    let store = open().await;
    store.create_queue(&path("x").queue, Partitions::new(8).unwrap()).await.unwrap();
    let table = "CREATE TABLE effect (at bigint GENERATED ALWAYS AS IDENTITY, key bigint, number bigint)";
    store.client().await.unwrap().batch_execute(table).await.unwrap();
    let (stop, seen) = (CancellationToken::new(), Seen::default());
    let mut workers = Vec::new();
    for consumer in ["exactly", "at-least"] {
        let request = CreateConsumer::ordered(path(consumer), SlotCount::new(3).unwrap());
        store.create_consumer(&request).await.unwrap();
        for number in 0..2 {
            let (own, stop) = (open().await, stop.clone());
            let effects = (consumer == "exactly").then(|| own.clone());
            let settings = WorkerSettings::new(path(consumer), WorkerName::new(format!("worker {number}")).unwrap())
                .ttl(Ttl::new(Duration::from_secs(2)).unwrap())
                .max(BatchSize::new(10).unwrap());
            let handler = Records { effects, seen: seen.clone() };
            let worker = Worker::join(Arc::new(own), settings, handler).await.unwrap();
            workers.push(tokio::spawn(worker.run(stop)));
        }
    }

    let (mut answered, mut unknown) = (BTreeSet::new(), BTreeSet::new());
    let started = Instant::now();
    let sending = async {
        let mut number = 0;
        let mut failures = 0;
        while failures < KILLS || number < 600 {
            number += 1;
            let key = number % KEYS;
            let message = NewMessage::new(format!("{key}/{number}")).unwrap().key(Key::new(format!("k{key}")).unwrap());
            match store.send(&path("x").queue, message).await {
                Ok(_) => {
                    answered.insert((key, number));
                }
                Err(error) => {
                    match error.kind() {
                        Kind::UnknownOutcome => {
                            unknown.insert((key, number));
                        }
                        kind => assert_eq!(kind, Kind::Unavailable, "{error:?}"),
                    }
                    // Until it is there again; what is sent meanwhile is another message.
                    while store.now().await.is_err() {
                        assert!(started.elapsed() < PATIENCE, "the server comes back: {error:?}");
                        tokio::time::sleep(Duration::from_millis(20)).await; // TIME: as a caller does who is told to back off
                    }
                    failures += 1;
                }
            }
        }
    };
    let killing = async {
        for _ in 0..KILLS {
            tokio::time::sleep(Duration::from_millis(700)).await; // TIME: load between the blows
            server.kill_9().await.unwrap();
            server.start().await.unwrap();
        }
    };
    tokio::join!(sending, killing);
    while store.consumer_status(None).await.unwrap().iter().any(|consumer| consumer.lag > 0) {
        assert!(started.elapsed() < PATIENCE, "{:#?}", store.consumer_status(None).await);
        tokio::time::sleep(Duration::from_millis(20)).await; // TIME: messages are handled over time
    }
    stop.cancel();
    for worker in workers {
        worker.await.unwrap();
    }

    let rows = store.client().await.unwrap().query("SELECT key, number FROM effect ORDER BY at", &[]).await.unwrap();
    let effects: Vec<(u64, u64)> =
        rows.iter().map(|row| (row.get::<_, i64>(0).cast_unsigned(), row.get::<_, i64>(1).cast_unsigned())).collect();
    let once: BTreeSet<_> = effects.iter().copied().collect();
    assert_eq!(once.len(), effects.len(), "an effect is doubled");
    in_order(&effects);
    let seen = seen.lock().unwrap();
    let at_least: BTreeSet<_> = seen.iter().copied().collect();
    for handled in [&once, &at_least] {
        assert!(answered.is_subset(handled), "lost: {:?}", answered.difference(handled).collect::<Vec<_>>());
        let others: Vec<_> = handled.difference(&answered).collect();
        assert!(others.iter().all(|message| unknown.contains(message)), "{others:?} were refused");
    }
    assert_eq!(once, at_least);
    // What comes again comes in order, too, from where it was begun.
    let mut first = BTreeSet::new();
    in_order(&seen.iter().copied().filter(|one| first.insert(*one)).collect::<Vec<_>>());
    assert!(answered.len() > 500);
}

fn in_order(handled: &[(u64, u64)]) {
    let mut last = BTreeMap::new();
    for (key, number) in handled {
        let before = last.insert(key, number);
        assert!(before.is_none_or(|before| before < number), "of key {key} {number} came after {before:?}");
    }
}
