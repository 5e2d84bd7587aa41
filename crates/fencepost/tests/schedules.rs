//! The scheduler over real stores: what ends a term arrives as it was, down to the driver's own error, and what does not have to end it does not.

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use fencepost::migrate::tokio_postgres;
use fencepost::postgres::{PostgresOptions, PostgresStore};
use fencepost::runtime::{CancellationToken, ScheduleEvent, ScheduleObserver, Scheduler, Scheduling};
use fencepost::{
    BootInstant, Clock, Error, HolderName, HostClock, Kind, Partitions, QueueName, Result, Schedule, ScheduleName,
    Spec, Timestamp, Ttl,
};
use fencepost_test_support::{FaultProxy, PgServer, skip_or_fail};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

const TTL: Duration = Duration::from_secs(3);

/// How long anything may take that must come.
const PATIENCE: Duration = Duration::from_secs(60);

struct Ears(UnboundedSender<&'static str>);

impl ScheduleObserver for Ears {
    fn hear(&self, event: ScheduleEvent<'_>) {
        let _ = self.0.send(match event {
            ScheduleEvent::Leads { .. } => "leads",
            ScheduleEvent::Fired { schedule, .. } if schedule.as_str() == "t" => "t fired",
            ScheduleEvent::Fired { .. } => "fired",
            _ => "other",
        });
    }
}

async fn put(store: &dyn fencepost_core::Store, name: &str, spec: &str) {
    let queue = QueueName::new("q").unwrap();
    let schedule = Schedule::new(ScheduleName::new(name).unwrap(), Spec::parse(spec).unwrap(), queue);
    store.put(&schedule).await.unwrap();
}

/// A scheduler that leads, with a schedule.
struct Leading {
    task: JoinHandle<Result<()>>,
    stop: CancellationToken,
    heard: UnboundedReceiver<&'static str>,
}

impl Leading {
    async fn over(store: Arc<dyn fencepost_core::Store>, spec: &str) -> Self {
        store.create_queue(&QueueName::new("q").unwrap(), Partitions::default()).await.unwrap();
        put(&*store, "s", spec).await;
        let (tell, heard) = unbounded_channel();
        let scheduler = Scheduler::new(store, HolderName::new("h").unwrap())
            .ttl(Ttl::new(TTL).unwrap())
            .observer(Arc::new(Ears(tell)));
        let stop = CancellationToken::new();
        let stops = stop.clone();
        let task = tokio::spawn(async move { scheduler.run_schedules(&stops).await });
        let mut leading = Self { task, stop, heard };
        leading.hears("leads").await;
        leading
    }

    async fn hears(&mut self, word: &str) {
        let heard = async { while self.heard.recv().await.expect("it goes on") != word {} };
        tokio::time::timeout(PATIENCE, heard).await.expect("it is told");
    }

    async fn failed(self) -> Error {
        tokio::time::timeout(PATIENCE, self.task).await.expect("it ends").unwrap().unwrap_err()
    }
}

/// B02: the server is gone, at the loop's top and while the leader sleeps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b02_a_server_that_is_gone_ends_it_with_the_drivers_own_error() {
    let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
    for spec in ["@every 1s", "@every 1h"] {
        let database = server.database().await.unwrap();
        let proxy = FaultProxy::start(server.address()).await.unwrap();
        let store = fencepost::open(proxy.url(&database.url())).create(true).await.unwrap();
        let leading = Leading::over(store.contract(), spec).await;
        proxy.refuse(true).await;
        let since = Instant::now();
        let cuts = async {
            while since.elapsed() < PATIENCE {
                proxy.cut();
                tokio::time::sleep(TTL / 30).await; // TIME: one that was just being made is cut as well
            }
        };
        let error = tokio::select! {
            error = leading.failed() => error,
            () = cuts => panic!("it goes on without a server"),
        };
        assert_eq!(error.kind(), Kind::Unavailable, "{error:?}");
        assert!(since.elapsed() < TTL, "{:?}", since.elapsed());
        let mut cause = error.source();
        let is_drivers =
            |cause: &&(dyn std::error::Error + 'static)| cause.is::<io::Error>() || cause.is::<tokio_postgres::Error>();
        while let Some(next) = cause.filter(|cause| !is_drivers(cause)) {
            cause = next.source();
        }
        assert!(cause.is_some(), "{error:?}");
    }
}

/// Sessions that the server ends are made anew within the term.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_sessions_are_ended_goes_on() {
    let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
    let database = server.database().await.unwrap();
    let store = fencepost::open(database.url()).create(true).await.unwrap();
    let mut leading = Leading::over(store.contract(), "@every 1s").await;
    let admin = database.connect().await.unwrap();
    let end = "select count(pg_terminate_backend(pid)) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()";
    for _ in 0..3 {
        admin.execute(end, &[]).await.unwrap();
        leading.hears("fired").await;
    }
    leading.stop.cancel();
    assert!(leading.task.await.unwrap().is_ok());
}

/// B03: the store is closed while the leader sleeps, and while it is busy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b03_a_store_that_is_closed_says_so_on_every_engine() {
    let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
    let folder = tempfile::tempdir().unwrap();
    for (name, spec) in [("busy", "@every 1s"), ("asleep", "@every 1h")] {
        let database = server.database().await.unwrap();
        let file = folder.path().join(name);
        for url in ["mem:".to_owned(), format!("sqlite:{}", file.display()), database.url()] {
            let store = fencepost::open(&url).create(true).await.unwrap();
            let leading = Leading::over(store.contract(), spec).await;
            let since = Instant::now();
            store.close().await;
            let error = leading.failed().await;
            assert_eq!((error.kind(), error.code()), (Kind::Unavailable, "store_closed"), "{url} {spec}: {error:?}");
            assert!(since.elapsed() < TTL, "{url} {spec}: {:?}", since.elapsed());
        }
    }
}

/// B07: renewals find every connection of the pool taken: they are attempted again while that helps, and then end the term in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b07_a_pool_that_is_starved_ends_the_term_before_the_lease_does() {
    let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
    let database = server.database().await.unwrap();
    let options = PostgresOptions::default().create(true).pool_size(2);
    let store = PostgresStore::open(&database.url(), options).await.unwrap();
    let mut leading = Leading::over(Arc::new(store.clone()), "@every 1s").await;
    let mut rival = database.connect().await.unwrap();
    for is_short in [true, false] {
        leading.hears("fired").await;
        let lock = rival.transaction().await.unwrap();
        lock.batch_execute("lock table fencepost.schedule in access exclusive mode").await.unwrap();
        // They wait for the lock, each with a connection, and the renewals for a connection.
        let starving = (0..8).map(|_| {
            let store = store.clone();
            tokio::spawn(async move { fencepost_core::Schedules::schedule_status(&store).await })
        });
        let starving: Vec<_> = starving.collect();
        if is_short {
            tokio::time::sleep(TTL / 9).await; // TIME: less than all attempts together
            lock.rollback().await.unwrap();
            leading.hears("fired").await;
        } else {
            let since = Instant::now();
            let error = tokio::time::timeout(PATIENCE, &mut leading.task).await.unwrap().unwrap().unwrap_err();
            assert_eq!(error.kind(), Kind::Unavailable, "{error:?}");
            assert!(since.elapsed() < TTL, "{:?}", since.elapsed());
            lock.rollback().await.unwrap();
        }
        for starved in starving {
            let _ = starved.await.unwrap();
        }
    }
}

/// A leader that has nothing to fire makes one round trip a renewal, and hears of a change at once all the same (B09).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b09_an_idle_leader_asks_once_a_renewal_and_hears_of_changes() {
    let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
    let database = server.database().await.unwrap();
    let proxy = FaultProxy::start(server.address()).await.unwrap();
    let store = fencepost::open(proxy.url(&database.url())).create(true).await.unwrap();
    let mut leading = Leading::over(store.contract(), "@every 1h").await;
    // Until notifications are relied on.
    let quiet = async {
        loop {
            let before = proxy.requests();
            tokio::time::sleep(TTL * 2).await; // TIME: what is asked in it is what is measured
            if proxy.requests() - before <= 6 {
                return proxy.requests() - before;
            }
        }
    };
    let asked = tokio::time::timeout(PATIENCE, quiet).await.expect("it asks once a renewal");
    assert!(asked >= 4, "{asked} requests in two terms: it renews");

    let other = fencepost::open(database.url()).await.unwrap();
    let since = Instant::now();
    put(&*other, "t", "@every 1s").await;
    leading.hears("t fired").await;
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    leading.stop.cancel();
    assert!(leading.task.await.unwrap().is_ok());
}

/// This host's clocks, with a wall clock that is wrong by so much.
#[derive(Debug, Default)]
struct Wrong(AtomicI64);

impl Clock for Wrong {
    fn wall(&self) -> Timestamp {
        Timestamp::from_micros(HostClock.wall().as_micros() + self.0.load(Ordering::Relaxed))
    }

    fn boot(&self) -> BootInstant {
        HostClock.boot()
    }

    fn boot_id(&self) -> u64 {
        HostClock.boot_id()
    }
}

/// A clock that is set forward and back, of the host or of the server, makes nothing fire twice and keeps nothing from firing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b08_a_clock_that_is_set_neither_fires_twice_nor_starves() {
    let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
    let (folder, database) = (tempfile::tempdir().unwrap(), server.database().await.unwrap());
    let server = database.connect().await.unwrap();
    let (file, url) = (format!("sqlite:{}", folder.path().join("app").display()), database.url());
    tokio::join!(set_clocks("mem:", &server), set_clocks(&file, &server), set_clocks(&url, &server));
}

async fn set_clocks(url: &str, server: &tokio_postgres::Client) {
    let clock = Arc::new(Wrong::default());
    let store = fencepost::open(url).clock(clock.clone()).create(true).await.unwrap();
    let mut leading = Leading::over(store.contract(), "@every 1s").await;
    for hours in [0, 1, -1] {
        clock.0.store(hours * 3_600_000_000, Ordering::Relaxed);
        if store.as_postgres().is_some() {
            let of_server = format!(
                "create or replace function fencepost._clock() returns timestamptz language sql volatile parallel restricted
                    as $$ select pg_catalog.clock_timestamp() + interval '{hours} hours' $$"
            );
            server.batch_execute(&of_server).await.unwrap();
        }
        // What was under way may still be of before.
        for _ in 0..3 {
            leading.hears("fired").await;
        }
    }
    leading.stop.cancel();
    leading.task.await.unwrap().unwrap();
    let fired = store.schedule_history(&ScheduleName::new("s").unwrap()).await.unwrap();
    assert!(fired.len() >= 9, "{url}: {fired:?}");
    assert!(fired.windows(2).all(|pair| pair[0].nominal_at < pair[1].nominal_at), "{url}: {fired:?}");
    assert_eq!(store.queue_status().await.unwrap()[0].stored, fired.len() as u64, "{url}");
    store.close().await;
}

/// A queue that somebody has locked for long keeps no other from its messages, and gets its own afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_locked_keeps_no_other_waiting() {
    let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
    let database = server.database().await.unwrap();
    let store = fencepost::open(database.url()).create(true).await.unwrap();
    let mut leading = Leading::over(store.contract(), "@every 1s").await;
    let other = QueueName::new("other").unwrap();
    store.create_queue(&other, Partitions::default()).await.unwrap();
    let schedule = Schedule::new(ScheduleName::new("t").unwrap(), Spec::parse("@every 1s").unwrap(), other);
    store.put(&schedule).await.unwrap();
    leading.hears("t fired").await;
    let mut rival = database.connect().await.unwrap();
    let drop = rival.transaction().await.unwrap();
    drop.batch_execute("select fencepost.drop_queue('q', true)").await.unwrap();
    for _ in 0..5 {
        leading.hears("t fired").await;
    }
    drop.rollback().await.unwrap();
    leading.hears("fired").await;
    leading.stop.cancel();
    leading.task.await.unwrap().unwrap();
}
