//! The migration lock on PostgreSQL: an advisory lock of a session that does nothing else. The lock lives and dies with that session, and
//! whatever is in doubt about it ends the session.

mod attempt;
mod beside;
mod call;
mod held;
mod holder;
mod lease;
mod pooler;
mod release;
mod setting;
mod source;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool_postgres::Pool;
use fencepost_core::{Error, Kind, LockName, Result};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use self::attempt::{Phase, Until};
pub(crate) use self::beside::SessionFence;
use self::held::Held;
pub use self::held::LockedSession;
pub use self::holder::{LockHolder, Patience};
pub use self::lease::{LeaseFence, LeaseHolder, LeaseSession, MigrationLease};
use self::source::Source;
use super::LockKey;

/// How much longer than it was told to a wait may take for a server that is slow to answer.
const GRACE: Duration = Duration::from_secs(5);

/// A lock that one session of the database holds at a time.
///
/// It is taken on a connection of its own, which it keeps until it is released. Several values of the same name exclude each other, in
/// one process and in many; calls on one value share what it holds. A lock ends with its session: when the process dies, when the
/// connection is lost, when the value is dropped.
///
/// ```
/// use fencepost_migrate::MigrationLock;
/// use fencepost_migrate::deadpool_postgres::{Manager, Pool};
/// use fencepost_migrate::tokio_postgres::NoTls;
/// # use fencepost_test_support::{PgServer, skip_or_fail};
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
/// # let database = server.database().await.unwrap();
/// # let config: tokio_postgres::Config = database.url().parse().unwrap();
///
/// let pool = Pool::builder(Manager::new(config, NoTls)).max_size(4).build().unwrap();
/// let mine = MigrationLock::new(pool.clone(), "shop").unwrap();
/// let other = MigrationLock::new(pool, "shop").unwrap();
///
/// mine.acquire().await.unwrap();
/// assert!(!other.try_acquire().await.unwrap());
/// println!("held by {:?}", other.holder().await.unwrap());
///
/// mine.release().await.unwrap();
/// assert!(other.try_acquire().await.unwrap());
/// # });
/// ```
#[derive(Debug)]
pub struct MigrationLock {
    source: Source,
    name: LockName,
    key: LockKey,
    /// Whose turn it is to ask for it.
    turn: tokio::sync::Mutex<()>,
    phase: watch::Sender<Phase>,
    held: Mutex<Option<Arc<Held>>>,
    /// Whether the way to the server was seen to lead to a session of one's own.
    is_direct: AtomicBool,
}

impl MigrationLock {
    /// The lock of that name in the database of a pool, which needs at least two connections.
    ///
    /// # Errors
    /// `invalid_input` for a bad name.
    pub fn new(pool: Pool, name: &str) -> Result<Self> {
        Self::over(Source::Pool { pool, has_session_pooler: false }, name)
    }

    /// The same where a pooler between the pool and the server is known to give each connection a session of its own, and is not to be
    /// refused. It is up to the caller that this is so.
    ///
    /// # Errors
    /// As those of [`MigrationLock::new`].
    pub fn behind_session_pooler(pool: Pool, name: &str) -> Result<Self> {
        Self::over(Source::Pool { pool, has_session_pooler: true }, name)
    }

    /// The lock of that name in the database of a URL. `pooler=session` in it says what [`MigrationLock::behind_session_pooler`] does.
    ///
    /// # Errors
    /// `invalid_input` for a bad URL or name.
    pub fn at(url: &str, name: &str) -> Result<Self> {
        Self::over(Source::url(url)?, name)
    }

    fn over(source: Source, name: &str) -> Result<Self> {
        let name = LockName::new(name)?;
        let key = LockKey::of(&name);
        let (turn, phase) = (tokio::sync::Mutex::new(()), watch::Sender::new(Phase::Idle));
        Ok(Self { source, name, key, turn, phase, held: Mutex::new(None), is_direct: AtomicBool::new(false) })
    }

    /// Its name.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// What stands for the name on the server, in `pg_locks` as `classid` and `objid`.
    pub fn key(&self) -> LockKey {
        self.key
    }

    /// Waits until the lock is this value's, for as long as it takes. Where it is already, returns at once; where another call asks for
    /// it, takes part in that. Dropped at any await, it leaves nothing behind.
    ///
    /// # Errors
    /// `invalid_input` with code `pool_too_small` for a pool of one connection, `unsupported` with code `pooler` behind a pooler,
    /// `unavailable` when the server cannot be reached or stops answering.
    pub async fn acquire(&self) -> Result<()> {
        self.take(Until::Granted).await.map(drop)
    }

    /// The same for at most `bound`: `false` when somebody else holds it to the end.
    ///
    /// # Errors
    /// As those of [`MigrationLock::acquire`].
    pub async fn acquire_within(&self, bound: Duration) -> Result<bool> {
        self.take_within(bound, |end| end.map_or(Until::Granted, Until::Then)).await
    }

    /// The same for as long as `go_on` says so. It is asked about once a second, and told who holds the lock, if anybody does then.
    ///
    /// # Errors
    /// As those of [`MigrationLock::acquire`].
    pub async fn acquire_while(&self, mut go_on: impl FnMut(Option<&LockHolder>) -> bool + Send) -> Result<bool> {
        self.take(Until::Told(&mut go_on, None)).await
    }

    /// The same for at most `bound`.
    ///
    /// # Errors
    /// As those of [`MigrationLock::acquire`].
    pub async fn acquire_while_within(
        &self,
        bound: Duration,
        mut go_on: impl FnMut(Option<&LockHolder>) -> bool + Send,
    ) -> Result<bool> {
        self.take_within(bound, |end| Until::Told(&mut go_on, end)).await
    }

    /// Takes the lock if nobody else holds it; `false` at once if somebody does.
    ///
    /// # Errors
    /// As those of [`MigrationLock::acquire`].
    pub async fn try_acquire(&self) -> Result<bool> {
        let mut phase = self.phase.subscribe();
        tokio::select! {
            biased;
            turn = self.turn.lock() => {
                let _turn = turn;
                self.take_in_turn(Until::Now).await
            }
            // Who is before us waits, so somebody holds it.
            _ = phase.wait_for(|phase| *phase == Phase::Waits) => Ok(false),
        }
    }

    async fn take_within<'a>(&self, bound: Duration, until: impl FnOnce(Option<Instant>) -> Until<'a>) -> Result<bool> {
        // A bound that no clock reaches is none.
        let Some(end) = Instant::now().checked_add(bound) else { return self.take(until(None)).await };
        match timeout_at(end + GRACE, self.take(until(Some(end)))).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::new(Kind::Unavailable, "cannot take the lock: the server did not answer in time")
                .coded("timeout")),
        }
    }

    async fn take(&self, until: Until<'_>) -> Result<bool> {
        let end = match &until {
            Until::Then(end) | Until::Told(_, Some(end)) => Some(*end),
            _ => None,
        };
        let _turn = match end {
            None => self.turn.lock().await,
            Some(end) => match timeout_at(end, self.turn.lock()).await {
                Ok(turn) => turn,
                Err(_) => return Ok(false),
            },
        };
        self.take_in_turn(until).await
    }

    async fn take_in_turn(&self, until: Until<'_>) -> Result<bool> {
        if self.is_held() {
            return Ok(true);
        }
        self.slot().take();
        let Some(session) = self.attempt(until).await? else { return Ok(false) };
        *self.slot() = Some(Held::new(session));
        Ok(true)
    }

    /// Gives the lock back. `true` when it was held and the server says that it is free; `false` when it was not, or no longer.
    ///
    /// What cannot be unlocked is ended: the session is closed, and with it goes the lock. That happens also when this future is dropped.
    ///
    /// # Errors
    /// `conflict` with code `transaction_open` when a transaction was left open on the session, `unavailable` when the server does not
    /// say that it is free.
    pub async fn release(&self) -> Result<bool> {
        let held = self.slot().take();
        let Some(held) = held.filter(|held| !held.is_lost()) else { return Ok(false) };
        let released = tokio::spawn(release::release(held, self.key)).await;
        released.unwrap_or_else(|cause| Err(Error::new(Kind::Internal, "the release did not end").caused_by(cause)))
    }

    /// Whether the lock is held by this value, as far as is known.
    pub fn is_held(&self) -> bool {
        self.slot().as_ref().is_some_and(|held| !held.is_lost())
    }

    /// Waits until what is held now is held no longer: its session was lost, or it was released. At once when nothing is held.
    ///
    /// A session that was lost is noticed when its connection closes. While it is lent ([`MigrationLock::session`]) out of a pool, that is
    /// noticed by its own calls alone.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let ended = self.slot().as_ref().map(|held| held.ended());
        async {
            if let Some(ended) = ended {
                ended.cancelled_owned().await;
            }
        }
    }

    /// The session that holds the lock, for what must not go on without it: losing the session ends both. Whoever has it keeps others,
    /// and a release, waiting. A session that was lent is not given back to a pool, since it may be changed.
    ///
    /// # Errors
    /// `conflict` with code `lock_not_held`.
    pub async fn session(&self) -> Result<LockedSession> {
        let held = self.slot().clone();
        match held {
            Some(held) => held.lend().await,
            None => Err(held::not_held()),
        }
    }

    /// Who holds the lock, if anybody does; asked on another connection.
    ///
    /// # Errors
    /// `unavailable` when there is none to be had, or it does not answer.
    pub async fn holder(&self) -> Result<Option<LockHolder>> {
        let session = self.source.lend().await?;
        let holder = LockHolder::read(session.client(), self.key).await?;
        session.give_back();
        Ok(holder)
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Arc<Held>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
