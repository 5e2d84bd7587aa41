//! The primary is killed under load and its standby promoted: workers and senders go on by a URL of two hosts. What must be true then is
//! checked from rows that were written beside the calls, and from what the clients were told.
//!
//! `FENCEPOST_SEEDS=20` runs more seeds than the usual three of each kind, `FENCEPOST_SEED=7` only that one.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost_core::{
    BatchSize, ClaimSlot, ConsumerPath, Consumers, CreateConsumer, Error, Key, Kind, NewMessage, Partitions, Queues,
    Renewal, Result, SlotCount, SlotToken, Slots, WorkerName,
};
use fencepost_postgres::{PostgresStore, TransactionCalls, driver_error};
use fencepost_test_support::{DEFAULT_MAJOR, PgServer, Random, skip_or_fail};
use tokio_postgres::Client;

use crate::script::run;
use crate::stage::{installed_on, options, ttl};

const SLOTS: u16 = 4;
const SENDERS: u64 = 2;
const TABLES: &str = "create table sent (id bigint primary key, key text, n bigint);
    create table effect (at bigint generated always as identity, id bigint, key text, n bigint, slot int, epoch bigint, done_at timestamptz default clock_timestamp())";

fn seeds() -> Vec<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match number("FENCEPOST_SEED") {
        Some(seed) => vec![seed],
        None => (1..=number("FENCEPOST_SEEDS").unwrap_or(3)).collect(),
    }
}

fn path() -> ConsumerPath {
    ConsumerPath::new("orders", "billing").unwrap()
}

/// What everybody heard.
#[derive(Default)]
struct Heard {
    /// Sends whose commit was answered: id, key and number.
    sent: Mutex<Vec<(i64, String, i64)>>,
    grants: Mutex<Vec<SlotToken>>,
    count: AtomicU64,
    senders_stop: AtomicBool,
    workers_stop: AtomicBool,
}

/// One failure while the servers change places tells how it may be retried, and everything begins anew.
async fn again(error: &Error) {
    assert!(matches!(error.kind(), Kind::Unavailable | Kind::UnknownOutcome | Kind::Busy), "{error:?}");
    tokio::time::sleep(Duration::from_millis(20)).await; // TIME: somebody has to come up
}

/// Sends messages of its own keys, one a transaction, each with a row beside it.
async fn send(store: PostgresStore, heard: Arc<Heard>, sender: u64, seed: u64) {
    let mut dice = Random::seeded(seed * 100 + sender);
    let mut numbers: BTreeMap<String, i64> = BTreeMap::new();
    let mut client = None;
    while !heard.senders_stop.load(Ordering::Relaxed) {
        let key = format!("{sender}/{}", dice.below(6));
        let n = numbers.entry(key.clone()).or_default();
        *n += 1;
        match send_one(&store, &mut client, &key, *n).await {
            Ok(id) => {
                heard.sent.lock().unwrap().push((id, key, *n));
                heard.count.fetch_add(1, Ordering::Relaxed);
            }
            // Whether it is there nobody knows; the next one has another number.
            Err(error) => {
                client = None;
                again(&error).await;
            }
        }
    }
}

async fn send_one(store: &PostgresStore, client: &mut Option<Client>, key: &str, n: i64) -> Result<i64> {
    if client.is_none() {
        *client = Some(store.client().await?);
    }
    let transaction = client.as_mut().expect("it was just made").transaction().await.map_err(driver_error)?;
    let message = NewMessage::new(n.to_string())?.key(Key::new(key)?);
    let id = transaction.send_in(&path().queue, &message).await?.get();
    transaction.execute("insert into sent values ($1, $2, $3)", &[&id, &key, &n]).await.map_err(driver_error)?;
    transaction.commit_whole().await?;
    Ok(id)
}

/// Works on whatever slot it gets until it is told to stop, with the effects in the transaction of the ack.
async fn work(url: String, heard: Arc<Heard>, worker: usize) {
    let store = loop {
        match PostgresStore::open(&url, bounds()).await {
            Ok(store) => break store,
            Err(error) => again(&error).await,
        }
    };
    let request = ClaimSlot::new(path(), WorkerName::new(format!("worker {worker}")).unwrap()).ttl(ttl(1));
    let (mut client, mut held): (Option<Client>, Option<SlotToken>) = (None, None);
    while !heard.workers_stop.load(Ordering::Relaxed) {
        let Some(token) = held.clone() else {
            match store.claim(&request).await {
                Ok(Some(grant)) => {
                    heard.grants.lock().unwrap().push(grant.token.clone());
                    held = Some(grant.token);
                }
                Ok(None) => tokio::time::sleep(Duration::from_millis(20)).await, // TIME: somebody else has them
                Err(error) => again(&error).await,
            }
            continue;
        };
        match work_once(&store, &mut client, &token).await {
            Ok(true) => {}
            Ok(false) => tokio::time::sleep(Duration::from_millis(5)).await, // TIME: messages come over time
            Err(error) if error.kind() == Kind::Fenced => held = None,
            Err(error) => {
                client = None;
                again(&error).await;
            }
        }
    }
}

async fn work_once(store: &PostgresStore, client: &mut Option<Client>, token: &SlotToken) -> Result<bool> {
    let Some(batch) = store.receive(token, BatchSize::new(7)?).await? else {
        if store.renew_slot(token).await? == Renewal::Lost {
            return Err(Error::new(Kind::Fenced, "it is lost"));
        }
        return Ok(false);
    };
    if client.is_none() {
        *client = Some(store.client().await?);
    }
    let transaction = client.as_mut().expect("it was just made").transaction().await.map_err(driver_error)?;
    let (slot, epoch) = (i32::from(token.slot.get()), token.epoch.get());
    for message in &batch.messages {
        let n: i64 = std::str::from_utf8(&message.payload).unwrap().parse().unwrap();
        let key = message.key.as_ref().map(Key::as_str);
        let insert = "insert into effect (id, key, n, slot, epoch) values ($1, $2, $3, $4, $5)";
        transaction.execute(insert, &[&message.id.get(), &key, &n, &slot, &epoch]).await.map_err(driver_error)?;
    }
    transaction.ack_in(token, batch.id).await?;
    transaction.commit_whole().await?;
    Ok(true)
}

fn bounds() -> fencepost_postgres::PostgresOptions {
    options().call_timeout(Duration::from_secs(5)).connect_timeout(Duration::from_secs(2))
}

async fn outage(seed: u64, loses: bool) {
    let Some(primary) = skip_or_fail(PgServer::private_with(DEFAULT_MAJOR, &[("fsync", "off")]).await) else { return };
    let database = installed_on(&primary, false).await;
    let admin = database.connect().await.unwrap();
    run(&admin, TABLES).await;
    let store = PostgresStore::open(&database.url(), options()).await.unwrap();
    store.create_queue(&path().queue, Partitions::new(8).unwrap()).await.unwrap();
    store.create_consumer(&CreateConsumer::ordered(path(), SlotCount::new(i64::from(SLOTS)).unwrap())).await.unwrap();
    let standby = primary.standby("heir").await.unwrap();
    if !loses {
        primary.wait_for_standby("heir").await.unwrap();
    }
    let hosts = format!("{},{}", primary.address(), standby.address());
    let url = database.url().replace(&primary.address().to_string(), &hosts);
    let heard = Arc::new(Heard::default());
    let store = PostgresStore::open(&url, bounds()).await.unwrap();
    let senders: Vec<_> =
        (0..SENDERS).map(|sender| tokio::spawn(send(store.clone(), heard.clone(), sender, seed))).collect();
    let workers: Vec<_> =
        (0..usize::from(SLOTS)).map(|worker| tokio::spawn(work(url.clone(), heard.clone(), worker))).collect();

    let mut dice = Random::seeded(seed);
    sent(&heard, 50 + dice.below(150)).await;
    if loses {
        standby.fall_behind().await.unwrap();
        sent(&heard, 30 + dice.below(100)).await;
    }
    primary.kill_9().await.unwrap();
    let before: Vec<SlotToken> = heard.grants.lock().unwrap().clone();
    let answered = heard.sent.lock().unwrap().len();
    standby.promote().await.unwrap();
    sent(&heard, 100 + dice.below(100)).await;
    heard.senders_stop.store(true, Ordering::Relaxed);
    for sender in senders {
        sender.await.unwrap();
    }
    let client = standby.connect(database.name()).await.unwrap();
    done(&client).await;
    heard.workers_stop.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await.unwrap();
    }
    // Whoever was paused all the while.
    for token in &before {
        assert_eq!(store.renew_slot(token).await.unwrap(), Renewal::Lost, "seed {seed}");
        let error = store.receive(token, BatchSize::default()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Fenced, "seed {seed}: {error:?}");
    }
    check(seed, loses, &heard, answered, &client).await;
}

/// Waits until so many more sends were answered.
async fn sent(heard: &Heard, more: u64) {
    let until = heard.count.load(Ordering::Relaxed) + more;
    let since = std::time::Instant::now();
    while heard.count.load(Ordering::Relaxed) < until {
        assert!(since.elapsed() < Duration::from_secs(120), "nothing is sent any more");
        tokio::time::sleep(Duration::from_millis(5)).await; // TIME: the load is real
    }
}

/// Waits until everything that is there is done.
async fn done(client: &Client) {
    let left = "select count(*) from sent where id not in (select id from effect)";
    let since = std::time::Instant::now();
    while client.query_one(left, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        assert!(since.elapsed() < Duration::from_secs(120), "something is never given");
        tokio::time::sleep(Duration::from_millis(20)).await; // TIME: workers work
    }
}

/// From rows and answers alone.
async fn check(seed: u64, loses: bool, heard: &Heard, answered: usize, client: &Client) {
    let sent: BTreeSet<i64> =
        client.query("select id from sent", &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    let effects = client.query("select id, key, n, slot, epoch from effect order by at", &[]).await.unwrap();
    let ids: BTreeSet<i64> = effects.iter().map(|row| row.get(0)).collect();
    assert_eq!(ids.len(), effects.len(), "seed {seed}: an effect is doubled");
    assert_eq!(ids, sent, "seed {seed}: what is there is done, and nothing else");
    let waited = "select extract(epoch from (select min(done_at) from effect where epoch >= (select min(epoch) from fencepost.slot)) - max(seen_at))::float8, count(*)
        from fencepost.generation";
    let row = client.query_one(waited, &[]).await.unwrap();
    let (waited, generations): (f64, i64) = (row.get(0), row.get(1));
    let told = heard.sent.lock().unwrap();
    let kept = if loses { &told[answered..] } else { &told[..] };
    // A send that was answered by the dead server in the last moment stands among the later ones.
    let gone: Vec<_> = kept.iter().filter(|(id, ..)| !sent.contains(id)).collect();
    assert!(
        gone.is_empty() || loses && gone.len() <= SENDERS as usize,
        "seed {seed}: {gone:?} were answered and are gone"
    );
    let lost = told.iter().filter(|(id, ..)| !sent.contains(id)).count();
    assert_eq!(lost > 0, loses, "seed {seed}: {lost} are gone");
    let (mut last, mut highest): (BTreeMap<String, i64>, BTreeMap<i32, i64>) = Default::default();
    for row in &effects {
        let (key, n, slot, epoch): (String, i64, i32, i64) = (row.get(1), row.get(2), row.get(3), row.get(4));
        assert!(last.insert(key.clone(), n).unwrap_or(0) < n, "seed {seed}: {key} is out of order at {n}");
        assert!(highest.insert(slot, epoch).unwrap_or(0) <= epoch, "seed {seed}: an effect under an old epoch");
    }
    let grants = heard.grants.lock().unwrap();
    let epochs: HashSet<i64> = grants.iter().map(|token| token.epoch.get()).collect();
    assert_eq!(epochs.len(), grants.len(), "seed {seed}: an epoch came twice");
    assert_eq!(generations, 2, "seed {seed}");
    assert!(waited >= 2.0, "seed {seed}: granted {waited} s after the new server was first seen");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_was_answered_is_lost_with_a_synchronous_standby() {
    for seed in seeds() {
        outage(seed, false).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_lagging_standby_has_is_done_once_and_old_tokens_are_refused() {
    for seed in seeds() {
        outage(seed, true).await;
    }
}
