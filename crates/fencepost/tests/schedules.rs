//! The scheduler over real stores: what ends a term arrives as it was, down to the driver's own error, and what does not have to end it does not.

use std::error::Error as _;
use std::io;
use std::time::{Duration, Instant};

use fencepost::migrate::tokio_postgres;
use fencepost::runtime::{CancellationToken, ScheduleEvent, ScheduleObserver, Scheduler, Scheduling};
use fencepost::{Error, HolderName, Kind, Partitions, QueueName, Result, Schedule, ScheduleName, Spec, Store, Ttl};
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
            ScheduleEvent::Fired { .. } => "fired",
            _ => "other",
        });
    }
}

/// A scheduler that leads, with a schedule.
struct Leading {
    task: JoinHandle<Result<()>>,
    stop: CancellationToken,
    heard: UnboundedReceiver<&'static str>,
}

impl Leading {
    async fn over(store: &Store, spec: &str) -> Self {
        let queue = QueueName::new("q").unwrap();
        store.create_queue(&queue, Partitions::default()).await.unwrap();
        let schedule = Schedule::new(ScheduleName::new("s").unwrap(), Spec::parse(spec).unwrap(), queue);
        store.put(&schedule).await.unwrap();
        let (tell, heard) = unbounded_channel();
        let scheduler = Scheduler::new(store.contract(), HolderName::new("h").unwrap())
            .ttl(Ttl::new(TTL).unwrap())
            .observer(std::sync::Arc::new(Ears(tell)));
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
        let leading = Leading::over(&store, spec).await;
        proxy.refuse(true).await;
        proxy.cut();
        let since = Instant::now();
        let error = leading.failed().await;
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
    let mut leading = Leading::over(&store, "@every 1s").await;
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
            let leading = Leading::over(&store, spec).await;
            let since = Instant::now();
            store.close().await;
            let error = leading.failed().await;
            assert_eq!((error.kind(), error.code()), (Kind::Unavailable, "store_closed"), "{url} {spec}: {error:?}");
            assert!(since.elapsed() < TTL, "{url} {spec}: {:?}", since.elapsed());
        }
    }
}
