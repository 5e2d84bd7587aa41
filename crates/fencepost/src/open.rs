//! From a URL to a store: the only place that knows every engine.

use std::future::IntoFuture;
use std::ops::Deref;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use fencepost_core::{Clock, Error, HostClock, Result};

/// Where programs look unless told: a file in the working directory.
pub const DEFAULT_URL: &str = "sqlite:fencepost.db";

const KNOWN: &str = "allowed are `sqlite:FILE`, such as `sqlite:app.db`, `postgres://USER@HOST/DATABASE`, and `mem:`";

/// Opens the store at `url`: `sqlite:FILE`, `postgres://USER:PASSWORD@HOST:PORT/DATABASE` or `mem:`.
///
/// Nothing happens until the returned [`Open`] is awaited.
///
/// # Errors
/// `invalid_input` for a URL of an unknown kind; `not_found` when there is no store and [`Open::create`] was not asked for;
/// `schema` when the store is of a newer version or not fencepost's; `corrupt` when it is damaged; `unavailable`.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> fencepost::Result<()> {
/// let store = fencepost::open("mem:").await?;
/// assert_eq!(store.info().engine, "mem");
/// assert!(fencepost::open("sqlte:app.db").await.is_err());
/// # Ok(())
/// # }
/// ```
pub fn open(url: impl Into<String>) -> Open {
    Open { url: url.into(), create: false, clock: Arc::new(HostClock) }
}

/// How to open a store; await it.
#[derive(Clone)]
#[must_use = "nothing is opened until this is awaited"]
pub struct Open {
    url: String,
    create: bool,
    clock: Arc<dyn Clock>,
}

impl Open {
    /// Whether to make the file, and install or upgrade the schema. Any number of processes may do so at once.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Replaces the host's clocks, for tests that move time instead of waiting for it. On PostgreSQL the server's clock decides, whatever
    /// this one shows.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Files beside the place of a store that is not there, which would be taken for its own once it is made.
    pub fn leftovers(&self) -> Vec<PathBuf> {
        match self.url.split_once(':') {
            #[cfg(feature = "sqlite")]
            Some(("sqlite", file)) => fencepost_sqlite::leftovers(file.as_ref()),
            _ => Vec::new(),
        }
    }

    async fn connect(self) -> Result<Store> {
        // SECURITY: of a URL that is not understood only the kind is shown; the rest may hold a password.
        let refuse = |why: &str| {
            Error::invalid(format!("cannot open the store: {why}"), KNOWN).during("open").with("argument", "store")
        };
        let Some((kind, rest)) = self.url.split_once(':') else {
            return Err(refuse("its url has no kind before a colon"));
        };
        match kind {
            "mem" if rest.is_empty() => {
                let store = fencepost_mem::MemStore::new(self.clock);
                Ok(Store { contract: Arc::new(store.clone()), engine: Engine::Mem(store) })
            }
            "mem" => Err(refuse("`mem:` takes no name, a store in memory has none")),
            #[cfg(feature = "sqlite")]
            "sqlite" if !rest.is_empty() => {
                let options = fencepost_sqlite::SqliteOptions::default().create(self.create).clock(self.clock);
                let store = fencepost_sqlite::SqliteStore::open(rest, options).await?;
                Ok(Store { contract: Arc::new(store.clone()), engine: Engine::Sqlite(store) })
            }
            #[cfg(feature = "sqlite")]
            "sqlite" => Err(refuse("`sqlite:` names no file")),
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => {
                let options = fencepost_postgres::PostgresOptions::default().create(self.create);
                let store = fencepost_postgres::PostgresStore::open(&self.url, options).await?;
                Ok(Store { contract: Arc::new(store.clone()), engine: Engine::Postgres(store) })
            }
            #[cfg(not(feature = "postgres"))]
            "postgres" | "postgresql" => Err(Error::new(
                fencepost_core::Kind::Unsupported,
                format!("cannot open the store: this build has no engine for `{kind}:`"),
            )
            .during("open")
            .hinted(KNOWN)),
            _ => Err(refuse(&format!("`{kind}` is not a kind of store"))),
        }
    }
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open").field("create", &self.create).finish_non_exhaustive()
    }
}

impl IntoFuture for Open {
    type Output = Result<Store>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Store>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.connect())
    }
}

/// An open store. Clones share it; it derefs to the contract, [`fencepost_core::Store`].
#[derive(Clone)]
pub struct Store {
    contract: Arc<dyn fencepost_core::Store>,
    engine: Engine,
}

#[derive(Clone)]
enum Engine {
    Mem(fencepost_mem::MemStore),
    #[cfg(feature = "sqlite")]
    Sqlite(fencepost_sqlite::SqliteStore),
    #[cfg(feature = "postgres")]
    Postgres(fencepost_postgres::PostgresStore),
}

impl Store {
    /// The contract as a shared trait object, as workers take it.
    pub fn contract(&self) -> Arc<dyn fencepost_core::Store> {
        self.contract.clone()
    }

    /// The model engine beneath, if it is that: for its transactions.
    pub fn as_mem(&self) -> Option<&fencepost_mem::MemStore> {
        match &self.engine {
            Engine::Mem(store) => Some(store),
            #[allow(unreachable_patterns, reason = "without the other engines nothing is left")]
            _ => None,
        }
    }

    /// The SQLite engine beneath, if it is that: for its transactions.
    #[cfg(feature = "sqlite")]
    pub fn as_sqlite(&self) -> Option<&fencepost_sqlite::SqliteStore> {
        match &self.engine {
            Engine::Sqlite(store) => Some(store),
            _ => None,
        }
    }

    /// The PostgreSQL engine beneath, if it is that: for its transactions.
    #[cfg(feature = "postgres")]
    pub fn as_postgres(&self) -> Option<&fencepost_postgres::PostgresStore> {
        match &self.engine {
            Engine::Postgres(store) => Some(store),
            _ => None,
        }
    }
}

impl Deref for Store {
    type Target = dyn fencepost_core::Store;

    fn deref(&self) -> &Self::Target {
        &*self.contract
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Store").field(&self.info()).finish()
    }
}
