//! Listening for notifications on a connection of its own, by a task of its own. Whether any arrive is tested first: a pooler in
//! transaction mode takes the LISTEN and delivers nothing. Its sessions serve others, so it is asked as little as possible.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fencepost_connect::{Connector, Open};
use fencepost_core::Result;
use fencepost_core::refusal::store_closed;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::types::Type;

use crate::error::{Effect, driver_error, unanswered};
use crate::store::{PostgresStore, WeakStore, column, one};

/// How long an echo may take.
const ECHO: Duration = Duration::from_secs(2);

/// How long nothing may be heard before it is asked whether the connection is still there.
const QUIET: Duration = Duration::from_secs(5);

/// How long the server may take to listen, or to forget that it did.
const ANSWER: Duration = Duration::from_secs(5);

/// How long nobody tries again after there was no connection.
const AGAIN: Duration = Duration::from_secs(30);

/// How long nobody tries again after there was no echo: it lies in what stands between here and the server.
const RARELY: Duration = Duration::from_secs(600);

/// How long nobody tries again after a connection that heard was lost.
const SOON: Duration = Duration::from_secs(1);

/// So many notifications wait to be read at most; more are dropped, as they are hints.
const WAITING: usize = 1024;

/// How often is looked whether a session serves others too.
const LOOKS: usize = 3;

const SESSION: &str = "select pg_backend_pid()";
const NOTIFY: &str = "select pg_notify('fencepost', $1)";

/// A task that listens.
pub(crate) struct Listener {
    task: JoinHandle<()>,
    heard: Receiver<i64>,
    hearing: Hears,
    checks: Arc<AtomicBool>,
}

/// How a store learns what others have done while somebody sleeps in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hearing {
    /// By looking so far: nobody sleeps, or it has just begun to listen.
    NotYet,
    /// By notifications, at once.
    Notified,
    /// By looking alone, a quarter of a second late: no notification arrives, as behind a pooler in transaction mode.
    Deaf,
    /// By looking: there was no connection to listen on, and is tried again.
    Unconnected,
}

/// What is known of it, shared with who asks.
pub(crate) type Hears = Arc<Mutex<Hearing>>;

/// Until when nobody tries, as there was no echo. It outlives listeners.
pub(crate) type Deaf = Arc<Mutex<Option<Instant>>>;

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
        if self.hears() {
            set(&self.hearing, Hearing::NotYet);
        }
    }
}

pub(crate) fn get(hearing: &Hears) -> Hearing {
    *hearing.lock().expect("no panic while it is held")
}

fn set(hearing: &Hears, now: Hearing) {
    *hearing.lock().expect("no panic while it is held") = now;
}

impl Listener {
    /// Listens from now on, if and when that works here. Keeps no store from being dropped.
    pub(crate) fn start(store: &PostgresStore, deaf: Deaf) -> Self {
        let (tell, heard) = channel(WAITING);
        let hearing = store.watcher().hearing.clone();
        let (connector, weak) = (store.connections().ears().clone(), store.downgrade());
        let checks = Arc::new(AtomicBool::new(true));
        let task = store.runtime().spawn(listen(weak, connector, tell, hearing.clone(), deaf, checks.clone()));
        Self { task, heard, hearing, checks }
    }

    /// Whether it is asked now and then if a silent connection is still there.
    pub(crate) fn checks(&self, checks: bool) {
        self.checks.store(checks, Ordering::Relaxed);
    }

    /// Whether notifications arrive.
    pub(crate) fn hears(&self) -> bool {
        get(&self.hearing) == Hearing::Notified
    }

    /// A notification that has come already, if there is one.
    pub(crate) fn heard_already(&mut self) -> Option<i64> {
        self.heard.try_recv().ok()
    }

    /// The next notification's hash. Waits for ever when nothing can come. Cancel-safe.
    pub(crate) async fn heard(&mut self) -> i64 {
        match self.heard.recv().await {
            Some(hash) => hash,
            None => std::future::pending().await,
        }
    }
}

/// Whether notifications arrive at this store.
pub(crate) async fn notifies(store: &PostgresStore) -> bool {
    let ears = connect(store.connections().ears(), &store.downgrade()).await;
    ears.is_ok_and(|ears| ears.is_some())
}

async fn listen(
    store: WeakStore,
    connector: Arc<Connector>,
    tell: Sender<i64>,
    hearing: Hears,
    deaf: Deaf,
    checks: Arc<AtomicBool>,
) {
    loop {
        let until = *deaf.lock().expect("no panic while it is held");
        if let Some(until) = until {
            tokio::time::sleep_until(until.into()).await;
        }
        let pause = match connect(&connector, &store).await {
            Ok(Some(mut ears)) => {
                set(&hearing, Hearing::Notified);
                while let Some(payload) = ears.next(&checks).await {
                    if let Ok(hash) = payload.parse() {
                        let _ = tell.try_send(hash);
                    }
                }
                set(&hearing, Hearing::Unconnected);
                SOON
            }
            Ok(None) => {
                tracing::info!(
                    "notifications do not arrive here, as behind a pooler in transaction mode: wakes come by polling"
                );
                set(&hearing, Hearing::Deaf);
                *deaf.lock().expect("no panic while it is held") = Some(Instant::now() + RARELY);
                continue;
            }
            Err(error) => {
                tracing::debug!(%error, "cannot listen for notifications");
                set(&hearing, Hearing::Unconnected);
                AGAIN
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// A connection that listens.
struct Ears {
    heard: Receiver<String>,
    open: Open,
}

impl Ears {
    /// The next notification; none once the connection is lost, or has fallen silent and that was to be found.
    async fn next(&mut self, checks: &AtomicBool) -> Option<String> {
        loop {
            if let Ok(heard) = timeout(QUIET, self.heard.recv()).await {
                return heard;
            }
            if checks.load(Ordering::Relaxed) {
                // Nobody would tell that nothing arrives any more. The answer takes no transaction on the server.
                timeout(ECHO, self.open.client.simple_query("")).await.ok()?.ok()?;
            }
        }
    }
}

/// A connection on which notifications arrive; nothing when none does.
async fn connect(connector: &Connector, store: &WeakStore) -> Result<Option<Ears>> {
    let (tell, mut heard) = channel(WAITING);
    let open = connector.open(Some(&tell)).await?;
    drop(tell);
    let answered = async |sql| match timeout(ANSWER, open.client.batch_execute(sql)).await {
        Ok(answer) => answer.map_err(driver_error),
        Err(_) => Err(unanswered(Effect::Read)),
    };
    let other = store.upgrade().ok_or_else(store_closed)?;
    for _ in 0..LOOKS {
        let own = timeout(ANSWER, open.client.query_typed(SESSION, &[])).await;
        let own = own.map_err(|_| unanswered(Effect::Read))?.map_err(driver_error)?;
        let others = other.read("wakes", SESSION, &[]).await?;
        if column::<i32>(one(&own)?, 0)? == column::<i32>(one(&others)?, 0)? {
            // A pooler, for which the LISTEN would be left behind in a session that is not this connection's.
            return Ok(None);
        }
    }
    answered("listen fencepost").await?;
    // Sent through another session: a pooler would hand an own one back with its answer.
    let echo = format!("echo {}", fencepost_core::random_u64()?);
    other.read("wakes", NOTIFY, &[(&echo, Type::TEXT)]).await?;
    drop(other);
    let comes = async {
        while let Some(payload) = heard.recv().await {
            if payload == echo {
                return true;
            }
        }
        false
    };
    match timeout(ECHO, comes).await {
        Ok(true) => Ok(Some(Ears { heard, open })),
        Ok(false) => Err(unanswered(Effect::Read)),
        Err(_) => {
            // With luck it reaches the session that took the LISTEN.
            answered("unlisten fencepost").await?;
            Ok(None)
        }
    }
}
