//! An open store: its connections, its sleepers, and how a call is made.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use fencepost_core::{Error, Kind, Result, Store, StoreInfo, Timestamp, Topic, WakeHub};
use tokio::runtime::Handle;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::connection::{Connections, Parameter};
use crate::deliver::{GiveBack, deliver};
use crate::error::{Effect, driver_error};
use crate::listen::{Hearing, get};
use crate::numbered::{NOT_GRANTED, OfAny};
use crate::options::PostgresOptions;
use crate::schedule::Looks;
use crate::schema;
use crate::source::{Source, VERSION};
use crate::time::At;
use crate::wake::{Watcher, watch};

const NOW: &str = "select fencepost._clock()";

/// An open store in a PostgreSQL database. Clones share its connections; open a database once per process and clone the handle.
///
/// It belongs to the tokio runtime that it was opened in.
#[derive(Clone)]
pub struct PostgresStore(Arc<Inner>);

struct Inner {
    connections: Connections,
    hub: WakeHub,
    watcher: Watcher,
    closed: AtomicBool,
    /// Whether the user may not call the functions for any queue and lease, so that those are called that find what was granted.
    is_limited: AtomicBool,
    runtime: Handle,
    info: StoreInfo,
    last_look: Looks,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Sleepers may outlive the store; nobody would wake them any more.
        self.hub.close();
        self.watcher.end();
    }
}

/// A store that may be dropped meanwhile.
#[derive(Clone)]
pub(crate) struct WeakStore(Weak<Inner>);

impl WeakStore {
    /// The store, if it is still there and open.
    pub(crate) fn upgrade(&self) -> Option<PostgresStore> {
        self.0.upgrade().map(PostgresStore).filter(|store| !store.is_closed())
    }
}

impl PostgresStore {
    /// Opens the store in the database at `url`: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`.
    ///
    /// Several hosts, separated by commas, are tried in turn until one takes writes. `sslmode` is `disable`, `prefer` (the default:
    /// encrypted where the server has it, whoever that is) or `require` (encrypted, and the server's certificate is checked against
    /// its name and the known authorities, or those in the file that `sslrootcert` names). `sslrootcert` alone means `require`. Each
    /// address has [`PostgresOptions::connect_timeout`].
    ///
    /// # Errors
    /// `invalid_input` for a URL that cannot be read; `not_found` (code `no_store`) when no schema is installed and
    /// [`PostgresOptions::create`] is off; `schema` when it is of a newer version, of an older one and not to be upgraded, or not
    /// fencepost's; `unsupported` on a server older than PostgreSQL 14; `unavailable`, with a narrower code: `unreachable`,
    /// `access_denied`, `no_database`, `read_only`, `untrusted_server`, `cannot_connect`, `too_many_connections`.
    pub async fn open(url: &str, options: PostgresOptions) -> Result<Self> {
        Self::connect(url, &options).await.map_err(|error| error.during("open"))
    }

    async fn connect(url: &str, options: &PostgresOptions) -> Result<Self> {
        let runtime = Handle::try_current().map_err(|cause| {
            Error::new(Kind::Unsupported, "cannot open the store outside of a tokio runtime").caused_by(cause)
        })?;
        let connections = Connections::new(url, options, runtime.clone())?;
        let source = options.sql_folder.as_deref().map_or_else(Source::carried, Source::folder)?;
        // In a box: it is deep, and so would be the future of everybody who opens a store.
        let engine_version = Box::pin(schema::prepare(&connections, &source, options.create)).await?;
        let info = StoreInfo {
            engine: "postgres",
            location: connections.location().to_owned(),
            schema_version: VERSION,
            engine_version,
        };
        let (hub, watcher, closed) = (WakeHub::default(), Watcher::default(), AtomicBool::new(false));
        let (is_limited, last_look) = (AtomicBool::new(false), Looks::default());
        let inner = Inner { connections, hub: hub.clone(), watcher, closed, is_limited, runtime, info, last_look };
        let store = Self(Arc::new(inner));
        watch(&store, hub);
        Ok(store)
    }

    /// What the store says of itself.
    pub fn info(&self) -> StoreInfo {
        self.0.info.clone()
    }

    /// The instant by the engine's clock, which is the server's.
    ///
    /// # Errors
    /// `unavailable`.
    pub async fn now(&self) -> Result<Timestamp> {
        let rows = self.read("now", NOW, &[]).await?;
        Ok(column::<At>(one(&rows)?, 0)?.0)
    }

    /// A connection of the caller's own to the database, made as the store makes its own: for transactions that
    /// [`TransactionCalls`](crate::TransactionCalls) takes part in. It is beside the store's pool, and goes on when the store is closed.
    ///
    /// # Errors
    /// `unavailable`, with a narrower code as those of [`PostgresStore::open`].
    pub async fn client(&self) -> Result<tokio_postgres::Client> {
        self.0.connections.connector().client().await.map_err(|error| error.during("connect"))
    }

    /// How the store learns what others have done, as far as is known: by notifications, or by looking alone.
    pub fn hearing(&self) -> Hearing {
        get(&self.0.watcher.hearing)
    }

    /// Closes the store: calls that were begun are finished, later ones answer `unavailable` with code `store_closed`, and sleepers
    /// hear that it is closed.
    pub async fn close(&self) {
        self.0.closed.store(true, Ordering::Relaxed);
        self.0.connections.close();
        self.0.hub.close();
        self.0.watcher.end();
    }

    pub(crate) fn downgrade(&self) -> WeakStore {
        WeakStore(Arc::downgrade(&self.0))
    }

    pub(crate) fn hub(&self) -> &WakeHub {
        &self.0.hub
    }

    /// Wakes who sleeps on a topic in this process, after a call of this store has committed.
    pub(crate) fn wake(&self, topic: &Topic) {
        self.0.watcher.wake(&self.0.hub, topic, None);
    }

    pub(crate) fn watcher(&self) -> &Watcher {
        &self.0.watcher
    }

    pub(crate) fn last_look(&self) -> &Looks {
        &self.0.last_look
    }

    pub(crate) fn connections(&self) -> &Connections {
        &self.0.connections
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.0.runtime
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Relaxed)
    }

    /// Makes a call that changes nothing: when its answer is lost it is `unavailable`.
    pub(crate) async fn read(
        &self,
        operation: &'static str,
        sql: &'static str,
        values: &[Parameter<'_>],
    ) -> Result<Vec<Row>> {
        self.0.connections.run(Effect::Read, sql, values).await.map_err(|error| error.during(operation))
    }

    /// Makes a call that may change something: when its answer is lost it is `unknown_outcome`.
    pub(crate) async fn write(&self, operation: &'static str, sql: &str, values: &[Parameter<'_>]) -> Result<Vec<Row>> {
        self.0.connections.run(Effect::Write, sql, values).await.map_err(|error| error.during(operation))
    }

    /// Makes a call that may change something by the function for any queue or lease, where the user may call that.
    pub(crate) async fn write_any(
        &self,
        operation: &'static str,
        call: OfAny,
        values: &[Parameter<'_>],
    ) -> Result<Vec<Row>> {
        if !self.0.is_limited.load(Ordering::Relaxed) {
            match self.write(operation, call.any, values).await {
                Err(error) if error.fact("sqlstate") == Some(NOT_GRANTED) => {
                    self.0.is_limited.store(true, Ordering::Relaxed);
                }
                answer => return answer,
            }
        }
        self.write(operation, call.granted, values).await
    }

    /// Makes several calls in one transaction, in order; none happens or all.
    pub(crate) async fn write_all(
        &self,
        operation: &'static str,
        calls: &[(&str, &[Parameter<'_>])],
    ) -> Result<Vec<Vec<Row>>> {
        match calls {
            [] => Ok(Vec::new()),
            [(sql, values)] => Ok(vec![self.write(operation, sql, values).await?]),
            _ => self.0.connections.run_all(calls).await.map_err(|error| error.during(operation)),
        }
    }

    /// Makes a call that grants something, to its end even when the caller goes away; a grant that nobody heard of is given back.
    pub(crate) async fn granting<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<(T, Option<GiveBack>)>> + Send + 'static,
    ) -> Result<T> {
        deliver(&self.0.runtime, call).await
    }
}

/// The one row of an answer.
pub(crate) fn one(rows: &[Row]) -> Result<&Row> {
    match rows {
        [row] => Ok(row),
        _ => Err(Error::new(Kind::Internal, format!("the server answered {} rows instead of one", rows.len()))),
    }
}

/// A column of a row.
pub(crate) fn column<'r, T: FromSql<'r>>(row: &'r Row, index: usize) -> Result<T> {
    row.try_get(index).map_err(driver_error)
}

#[async_trait]
impl Store for PostgresStore {
    fn info(&self) -> StoreInfo {
        self.info()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.now().await
    }

    async fn close(&self) {
        self.close().await;
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("location", &self.0.info.location).finish_non_exhaustive()
    }
}
