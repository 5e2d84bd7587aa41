//! Very much of everything: listeners, queues, leases. What they cost is told by the server itself: statements, transaction numbers, bytes of
//! its log, buffers. Figures are printed for whoever asks for more (`FENCEPOST_QUEUES`, `--nocapture`).

use std::time::{Duration, Instant};

use fencepost_core::{
    AcquireLease, Acquired, ConsumerPath, Consumers, CreateConsumer, Dropped, HolderName, LeaseName, Leases,
    NewMessage, Partitions, QueueName, Queues, SlotCount, Slots, Topic, Wakeups,
};
use fencepost_postgres::PostgresStore;
use fencepost_test_support::{DEFAULT_MAJOR, PgServer, PrivateServer, skip_or_fail};
use tokio_postgres::Client;

use crate::script::{run, value};
use crate::stage::{installed_on, options, until};

/// A server where nothing else writes, so that what it counts is what is measured.
async fn quiet() -> Option<PrivateServer> {
    let settings = [("fsync", "off"), ("autovacuum", "off"), ("max_connections", "400")];
    skip_or_fail(PgServer::private_with(DEFAULT_MAJOR, &settings).await)
}

/// What the server has done so far.
#[derive(Debug, Clone, Copy)]
struct Marks {
    transactions: i64,
    numbers: i64,
    log_bytes: i64,
}

async fn marks(client: &Client) -> Marks {
    let sql = "select (select xact_commit + xact_rollback from pg_stat_database where datname = current_database()),
        pg_snapshot_xmax(pg_current_snapshot())::text::bigint, (pg_current_wal_lsn() - '0/0')::bigint";
    let row = client.query_one(sql, &[]).await.unwrap();
    Marks { transactions: row.get(0), numbers: row.get(1), log_bytes: row.get(2) }
}

/// What happens within so many seconds.
async fn within(client: &Client, seconds: u64) -> Marks {
    let before = marks(client).await;
    tokio::time::sleep(Duration::from_secs(seconds)).await; // TIME: what is done while nothing happens is the subject
    let after = marks(client).await;
    Marks {
        transactions: after.transactions - before.transactions,
        numbers: after.numbers - before.numbers,
        log_bytes: after.log_bytes - before.log_bytes,
    }
}

/// A42: a hundred stores that sleep on one queue: two connections each at most; a look a second each, four where its server was too busy to
/// show in time that notifications arrive; and whoever registers that somebody sleeps does so for all: a handful of transaction numbers and
/// next to nothing in the log. One message wakes them all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "figures, for whoever asks for them")]
async fn a42_a_hundred_idle_listeners_look_and_do_not_write() {
    const MANY: usize = 100;
    const SECONDS: u64 = 10;
    let Some(server) = quiet().await else { return };
    let database = installed_on(&server, false).await;
    let admin = database.connect().await.unwrap();
    let queue = QueueName::new("q").unwrap();
    let mut sleepers = Vec::new();
    for number in 0..MANY {
        let store = PostgresStore::open(&database.url(), options().pool_size(1)).await.unwrap();
        if number == 0 {
            store.create_queue(&queue, Partitions::default()).await.unwrap();
        }
        let receiver = store.wakes(&Topic::Messages(queue.clone()));
        sleepers.push((store, receiver));
    }
    let listening =
        "select count(*) from pg_stat_activity where datname = current_database() and query ilike '%listen fencepost%'";
    until("all listen", async || value::<i64>(&admin, listening).await >= MANY as i64).await;
    // Who came is looked after more closely for a while.
    within(&admin, 7).await;
    let idle = within(&admin, SECONDS).await;
    let connections: i64 =
        value(&admin, "select count(*) from pg_stat_activity where datname = current_database()").await;
    println!("{MANY} sleepers, {SECONDS} s: {idle:?}, {connections} connections");
    assert!(connections <= 2 * MANY as i64 + 1, "{connections} connections");
    let looks = idle.transactions / SECONDS as i64;
    assert!(looks <= 5 * MANY as i64, "{looks} transactions a second");
    assert!(idle.numbers <= 5, "{idle:?}");
    assert!(idle.log_bytes < 16 << 10, "{idle:?}");

    // Whatever woke them to make sure is heard already.
    for (_, receiver) in &mut sleepers {
        while tokio::time::timeout(Duration::ZERO, receiver.woken()).await.is_ok() {}
    }
    let since = Instant::now();
    sleepers[0].0.send(&queue, NewMessage::new("x").unwrap()).await.unwrap();
    for (_, receiver) in &mut sleepers {
        tokio::time::timeout(Duration::from_secs(10), receiver.woken()).await.expect("it is woken").unwrap();
    }
    println!("all awake after {:?}", since.elapsed());
}

/// As many queues as `FENCEPOST_QUEUES` says, with two consumers each: made, looked at, maintained and dropped, each in a time that is in
/// proportion to their number; idle, they cost nothing at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "figures, for whoever asks for them")]
async fn many_queues_are_made_shown_maintained_and_dropped() {
    let many: u32 = std::env::var("FENCEPOST_QUEUES").map_or(60, |many| many.parse().expect("a number"));
    let Some(server) = quiet().await else { return };
    let database = installed_on(&server, false).await;
    let (admin, url) = (database.connect().await.unwrap(), database.url());
    let store = PostgresStore::open(&url, options()).await.unwrap();
    let paths: Vec<ConsumerPath> = (0..many)
        .flat_map(|n| ["a", "b"].map(|name| ConsumerPath::new(format!("queue-{n:04}"), name).unwrap()))
        .collect();
    let mut since = Instant::now();
    let mut lap = |what: &str| {
        let took = std::mem::replace(&mut since, Instant::now()).elapsed();
        println!("{many} queues: {what} {took:?}, {:?} each", took / many);
        took
    };
    for path in &paths {
        store.create_queue(&path.queue, Partitions::default()).await.unwrap();
        store.create_consumer(&CreateConsumer::ordered(path.clone(), SlotCount::new(2).unwrap())).await.unwrap();
        store.send(&path.queue, NewMessage::new("x").unwrap()).await.unwrap();
    }
    lap("made");
    // By another process, which knows nothing of them yet.
    let other = PostgresStore::open(&url, options()).await.unwrap();
    lap("another store");
    let (consumers, slots) = other.overview().await.unwrap();
    let overview = lap("overview");
    assert_eq!((consumers.len(), slots.len()), (2 * many as usize, 4 * many as usize));
    assert!(consumers.iter().all(|consumer| consumer.lag == 2 && consumer.first_at.is_some()));
    // What is told at once is what is told one by one.
    assert_eq!(
        (consumers, slots),
        (other.consumer_status(None).await.unwrap(), other.slot_status(None).await.unwrap())
    );
    lap("consumer and slot status");
    assert_eq!(other.queue_status().await.unwrap().len(), many as usize);
    lap("queue status");
    assert!(overview < Duration::from_millis(20) * many + Duration::from_secs(1), "{overview:?}");
    store.maintain(None).await.unwrap();
    lap("maintained");
    assert_eq!(store.maintain(None).await.unwrap(), 0);
    lap("maintained once more");
    let idle = within(&admin, 3).await;
    assert!(idle.numbers == 0 && idle.transactions < 10, "{idle:?}");
    lap("idle");
    for path in paths.iter().step_by(2) {
        assert_eq!(store.drop_queue(&path.queue, true).await.unwrap(), Dropped::Dropped);
    }
    lap("dropped");
    let left = "select count(*) from pg_class where relnamespace = 'fencepost'::regnamespace and relname ~ '^(asleep_)?q[0-9]'";
    assert_eq!(value::<i64>(&admin, left).await, 0);
}

/// Ten thousand leases: an acquire, a look and a renewal read as many pages as among a hundred; the list comes whole; idle they cost nothing.
#[tokio::test]
#[expect(clippy::print_stdout, reason = "figures, for whoever asks for them")]
async fn ten_thousand_leases_cost_a_caller_what_a_hundred_do() {
    let Some(server) = quiet().await else { return };
    let database = installed_on(&server, false).await;
    let admin = database.connect().await.unwrap();
    let store = PostgresStore::open(&database.url(), options()).await.unwrap();
    let mut costs = Vec::new();
    let mut made = 0;
    for many in [100, 10_000] {
        let since = Instant::now();
        while made < many {
            let next = (made + 500).min(many);
            let acquire = format!(
                "select fencepost.lease_acquire('lease ' || n, 'h', '1 h') from generate_series({made} + 1, {next}) n"
            );
            run(&admin, &acquire).await;
            made = next;
        }
        println!("{many} leases after {:?}", since.elapsed());
        run(&admin, "vacuum analyze fencepost.lease, fencepost.lease_grant, fencepost.lease_renewal").await;
        let mut touched = Vec::new();
        for call in [
            "lease_acquire('lease 50', 'other', '1 h')",
            "lease_acquire('new ' || clock_timestamp(), 'h', '1 h')",
            "lease_renew('lease 50', (select epoch from fencepost.lease_status where name = 'lease 50'))",
        ] {
            let sql = format!("explain (analyze, buffers, format json) select fencepost.{call}");
            // The first one makes plans.
            let mut pages = 0;
            for _ in 0..2 {
                let plan: String = value::<Json>(&admin, &sql).await.0;
                let hit = plan.split("\"Shared Hit Blocks\": ").nth(1).unwrap();
                pages = hit[..hit.find(',').unwrap()].parse::<u64>().unwrap();
            }
            touched.push(pages);
        }
        costs.push(touched);
    }
    println!("pages touched by an acquire of a held one, of a new one, a renewal: {costs:?}");
    for (few, many) in costs[0].iter().zip(&costs[1]) {
        assert!(*many <= few * 2 + 12, "{costs:?}");
    }
    let since = Instant::now();
    let listed = store.lease_status().await.unwrap();
    println!("listed in {:?}", since.elapsed());
    assert_eq!(listed.len(), 10_000 + 4);
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    let request = AcquireLease::new(LeaseName::new("lease 77").unwrap(), HolderName::new("me").unwrap());
    assert!(matches!(store.acquire_lease(&request).await.unwrap(), Acquired::Held { .. }));
    let idle = within(&admin, 3).await;
    // The server itself notes now and then which transactions run.
    assert!(idle.numbers == 0 && idle.log_bytes < 1_024, "{idle:?}");
}

/// A column of type json as its text.
struct Json(String);

impl<'a> tokio_postgres::types::FromSql<'a> for Json {
    fn from_sql(
        _: &tokio_postgres::types::Type,
        raw: &'a [u8],
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(std::str::from_utf8(raw)?.to_owned()))
    }

    fn accepts(_: &tokio_postgres::types::Type) -> bool {
        true
    }
}
