//! Where sessions come from, a pool of the caller's or a URL, and the one way in which a session that is in doubt ends: its connection is
//! closed, and with it go its locks. Only a session that is known to be clean goes back into a pool.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Object, Pool, PoolError, TimeoutType, Timeouts};
use fencepost_connect::{Connector, Notice, Open, connect_error};
use fencepost_core::{Error, Kind, Result};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::timeout;
use tokio_postgres::Client;

/// How long it may take to connect to an address, unless the URL says otherwise.
const CONNECT: Duration = Duration::from_secs(5);

/// How long a connection of a pool is waited for that has no bound of its own.
const WAIT: Duration = Duration::from_secs(10);

/// Where sessions come from.
pub(super) enum Source {
    Pool { pool: Pool, has_session_pooler: bool },
    Url(Connector, Notices),
}

/// What the server says beside its answers, on whatever session, for the one run that hears it.
pub(crate) type Notices = Arc<Mutex<Receiver<Notice>>>;

/// So many notices are kept for a run that is busy.
const NOTICES: usize = 256;

impl Source {
    pub(super) fn url(url: &str) -> Result<Self> {
        let (tell, heard) = channel(NOTICES);
        let connector = Connector::new(url, CONNECT)?.keeping_alive().noticing(tell);
        Ok(Self::Url(connector, Arc::new(Mutex::new(heard))))
    }

    /// What the server says. A pool's connections keep it for themselves.
    pub(super) fn notices(&self) -> Option<Notices> {
        match self {
            Self::Pool { .. } => None,
            Self::Url(_, notices) => Some(notices.clone()),
        }
    }

    /// Whether a pooler is known to stand in between that gives each connection a session of its own.
    pub(super) fn has_session_pooler(&self) -> bool {
        match self {
            Self::Pool { has_session_pooler, .. } => *has_session_pooler,
            Self::Url(connector, _) => connector.has_session_pooler(),
        }
    }

    /// A session of its own.
    pub(super) async fn lend(&self) -> Result<Session> {
        match self {
            Self::Pool { pool, .. } => {
                // Who holds the lock needs a second connection for what it is held for, and would wait for itself.
                if pool.status().max_size < 2 {
                    return Err(too_small());
                }
                match timeout(pool.timeouts().wait.map_or(WAIT, |_| Duration::MAX), pool.get()).await {
                    Ok(object) => Ok(Session::new(Connection::Pooled(object.map_err(refusal)?))),
                    Err(_) => Err(refusal(PoolError::Timeout(TimeoutType::Wait))),
                }
            }
            Self::Url(connector, _) => Ok(Session::new(Connection::Own(connector.open(None).await?))),
        }
    }

    /// Another session beside the first, if one can be had without waiting for somebody else's.
    pub(super) async fn lend_another(&self) -> Result<Option<Session>> {
        match self {
            Self::Pool { pool, .. } => {
                let at_once = Timeouts { wait: Some(Duration::ZERO), create: None, recycle: None };
                match pool.timeout_get(&at_once).await {
                    Ok(object) => Ok(Some(Session::new(Connection::Pooled(object)))),
                    Err(PoolError::Timeout(_)) => Ok(None),
                    Err(error) => Err(refusal(error)),
                }
            }
            Self::Url(..) => self.lend().await.map(Some),
        }
    }
}

/// A session that is closed when this is dropped.
pub(super) struct Session(Option<Connection>);

enum Connection {
    Pooled(Object),
    Own(Open),
}

impl Session {
    fn new(connection: Connection) -> Self {
        Self(Some(connection))
    }

    pub(super) fn client(&self) -> &Client {
        match self.0.as_ref().expect("it is there until it is dropped") {
            Connection::Pooled(object) => object,
            Connection::Own(open) => &open.client,
        }
    }

    pub(super) fn client_mut(&mut self) -> &mut Client {
        match self.0.as_mut().expect("it is there until it is dropped") {
            Connection::Pooled(object) => object,
            Connection::Own(open) => &mut open.client,
        }
    }

    /// Gives a clean session back.
    pub(super) fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(Connection::Pooled(object)) = self.0.take() {
            drop(Object::take(object));
        }
    }
}

fn too_small() -> Error {
    Error::invalid(
        "cannot take the lock: the pool has one connection, which the lock would keep for itself",
        "give the pool at least two connections: the lock keeps one for as long as it is held",
    )
    .coded("pool_too_small")
}

fn refusal(error: PoolError) -> Error {
    let unavailable = |code, message: &'static str| Error::new(Kind::Unavailable, message).coded(code);
    match error {
        PoolError::Backend(error) => connect_error(error, true),
        PoolError::Timeout(_) => unavailable("pool_exhausted", "every connection of the pool is in use")
            .hinted("the lock keeps one connection for as long as it is held"),
        PoolError::Closed => unavailable("pool_closed", "the pool was closed").retried(fencepost_core::Retry::Never),
        error => Error::new(Kind::Internal, "cannot take a connection out of the pool").caused_by(error),
    }
}

impl std::fmt::Debug for Source {
    /// SECURITY: what it connects with may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pool { .. } => f.write_str("Pool"),
            Self::Url(connector, _) => f.debug_tuple("Url").field(&connector.location()).finish(),
        }
    }
}
