//! The migration lock where no session can hold one, as behind a pooler in transaction mode: a lease that is a row with an end and an epoch.
//! What is written under it is fenced by the epoch, in the same transaction; nothing else makes a write safe.

mod fence;
mod keeper;
mod table;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool_postgres::Pool;
use fencepost_core::{
    Clock, Deadline, Epoch, Error, HolderName, HostClock, Kind, LockName, Nonce, Result, Ttl, random_u64,
};
use tokio::sync::{OnceCell, oneshot};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_postgres::Client;

pub use self::fence::LeaseFence;
use self::keeper::Held;
pub use self::table::LeaseHolder;
use self::table::Table;
use super::source::{Session, Source};

/// Between two looks of who waits: at least this, and at most twice as long.
const LOOK: Duration = Duration::from_millis(200);

/// How much longer than it was told to a wait may take for a server that is slow to answer.
const GRACE: Duration = Duration::from_secs(5);

/// A lock like [`MigrationLock`](crate::MigrationLock) that works through any pooler, and fences what is written under it.
///
/// It is a lease: it ends by itself when its holder is gone for longer than the TTL, by the server's clock. A holder that was stopped for so
/// long and goes on finds that the ledger refuses it ([`LeaseFence::check`]). What it does outside of such a transaction, as building an
/// index concurrently, nothing can refuse.
///
/// Leases are in a table of their own, `fencepost_migration_lease`, which the first use of one makes.
#[derive(Debug)]
pub struct MigrationLease {
    origin: Arc<Origin>,
    schema: Option<String>,
    ttl: Ttl,
    holder: HolderName,
    table: OnceCell<Arc<Table>>,
    /// Whose turn it is to ask for it.
    turn: tokio::sync::Mutex<()>,
    held: Mutex<Option<Held>>,
}

/// Where a lease is.
#[derive(Debug)]
struct Origin {
    source: Source,
    name: LockName,
}

impl MigrationLease {
    /// The lease of that name in the database of a pool, which needs at least two connections.
    ///
    /// # Errors
    /// `invalid_input` for a bad name.
    pub fn new(pool: Pool, name: &str) -> Result<Self> {
        Self::over(Source::Pool { pool, has_session_pooler: false }, name)
    }

    /// The lease of that name in the database of a URL.
    ///
    /// # Errors
    /// `invalid_input` for a bad URL or name.
    pub fn at(url: &str, name: &str) -> Result<Self> {
        Self::over(Source::url(url)?, name)
    }

    fn over(source: Source, name: &str) -> Result<Self> {
        Ok(Self {
            origin: Arc::new(Origin { source, name: LockName::new(name)? }),
            schema: None,
            ttl: Ttl::DEFAULT,
            holder: HolderName::new(format!("process {}", process::id()))?,
            table: OnceCell::new(),
            turn: tokio::sync::Mutex::new(()),
            held: Mutex::new(None),
        })
    }

    /// How long it lasts without a renewal; 30 s unless told. It is renewed after a third of that.
    #[must_use]
    pub fn ttl(mut self, ttl: Ttl) -> Self {
        self.ttl = ttl;
        self
    }

    /// What others are told of who holds it; the process's number unless told.
    #[must_use]
    pub fn holder_name(mut self, holder: HolderName) -> Self {
        self.holder = holder;
        self
    }

    /// The schema of its table; the one in which sessions make tables unless told.
    #[must_use]
    pub fn in_schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// Its name.
    pub fn name(&self) -> &LockName {
        &self.origin.name
    }

    /// Waits until the lease is this value's, for as long as it takes. Where it is already, returns at once; where another call asks for it,
    /// takes part in that. Dropped at any await, it gives back what it is granted.
    ///
    /// # Errors
    /// `invalid_input` for a bad schema or a pool of one connection, `unavailable` when the server cannot be reached or stops answering.
    pub async fn acquire(&self) -> Result<()> {
        self.acquire_while(|_| true).await.map(drop)
    }

    /// The same for at most `bound`: `false` when somebody else holds it to the end.
    ///
    /// # Errors
    /// As those of [`MigrationLease::acquire`].
    pub async fn acquire_within(&self, bound: Duration) -> Result<bool> {
        self.acquire_while_within(bound, |_| true).await
    }

    /// The same for as long as `go_on` says so, which is told who holds it, if anybody does then.
    ///
    /// # Errors
    /// As those of [`MigrationLease::acquire`].
    pub async fn acquire_while(&self, mut go_on: impl FnMut(Option<&LeaseHolder>) -> bool + Send) -> Result<bool> {
        let _turn = self.turn.lock().await;
        loop {
            if self.take().await? {
                return Ok(true);
            }
            let table = self.table().await?;
            // One connection for as long as it is waited for the same holder.
            let session = self.origin.source.lend().await?;
            loop {
                let holder = table.holder(session.client(), &self.origin).await?;
                if !go_on(holder.as_ref()) {
                    session.give_back();
                    return Ok(false);
                }
                sleep(LOOK + LOOK.mul_f64((random_u64()? >> 11) as f64 / (1_u64 << 53) as f64)).await;
                if holder.is_none() {
                    break;
                }
            }
            session.give_back();
        }
    }

    /// The same for at most `bound`.
    ///
    /// # Errors
    /// As those of [`MigrationLease::acquire`].
    pub async fn acquire_while_within(
        &self,
        bound: Duration,
        mut go_on: impl FnMut(Option<&LeaseHolder>) -> bool + Send,
    ) -> Result<bool> {
        // A bound that no clock reaches is none.
        let Some(end) = Instant::now().checked_add(bound) else { return self.acquire_while(go_on).await };
        let attempt = self.acquire_while(|holder| go_on(holder) && Instant::now() < end);
        match timeout_at(end + GRACE, attempt).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::new(Kind::Unavailable, "cannot take the lease: the server did not answer in time")
                .coded("timeout")),
        }
    }

    /// Takes the lease if nobody else holds it; `false` at once if somebody does.
    ///
    /// # Errors
    /// As those of [`MigrationLease::acquire`].
    pub async fn try_acquire(&self) -> Result<bool> {
        let _turn = self.turn.lock().await;
        self.take().await
    }

    async fn take(&self) -> Result<bool> {
        if self.is_held() {
            return Ok(true);
        }
        self.slot().take();
        let table = self.table().await?.clone();
        let (origin, holder, ttl) = (self.origin.clone(), self.holder.clone(), self.ttl);
        let (tell, told) = oneshot::channel();
        // On a task of its own: where nobody hears what was granted, it is given back.
        tokio::spawn(async move {
            let _ = tell.send(ask(origin, table, holder, ttl).await);
        });
        let held =
            told.await.map_err(|cause| Error::new(Kind::Internal, "the attempt did not end").caused_by(cause))??;
        let is_granted = held.is_some();
        *self.slot() = held;
        Ok(is_granted)
    }

    /// Gives the lease back: `true` when it was held until now, `false` when it was not, or no longer. It is done also when this future is
    /// dropped.
    ///
    /// # Errors
    /// `unavailable` or `unknown_outcome` when the server does not say so; it ends with its TTL at the latest.
    pub async fn release(&self) -> Result<bool> {
        let Some(held) = self.slot().take() else { return Ok(false) };
        let released = tokio::spawn(held.release()).await;
        released.unwrap_or_else(|cause| Err(Error::new(Kind::Internal, "the release did not end").caused_by(cause)))
    }

    /// Whether the lease is held by this value, as far as is known: it was granted, and its end has not come. Only the fence is proof.
    pub fn is_held(&self) -> bool {
        self.slot().as_ref().is_some_and(Held::is_live)
    }

    /// Waits until what is held now is held no longer: somebody else was granted it, its end came without a renewal, or it was released. At
    /// once when nothing is held.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let ended = self.slot().as_ref().map(Held::ended);
        async {
            if let Some(ended) = ended {
                ended.cancelled_owned().await;
            }
        }
    }

    /// What refuses the writes of whoever does not hold the lease any more. None when nothing is held.
    pub fn fence(&self) -> Option<LeaseFence> {
        self.slot().as_ref().map(Held::fence)
    }

    /// A connection for what is done under the lease. It is closed when the answer is dropped, since it may be changed by then. Behind a
    /// pooler in transaction mode nothing that is set for its session stays.
    ///
    /// # Errors
    /// `unavailable` when there is none to be had.
    pub async fn session(&self) -> Result<LeaseSession> {
        self.origin.source.lend().await.map(LeaseSession)
    }

    /// Who holds the lease, if anybody does. Makes no table.
    ///
    /// # Errors
    /// As those of [`MigrationLease::acquire`].
    pub async fn holder(&self) -> Result<Option<LeaseHolder>> {
        let session = self.origin.source.lend().await?;
        let found = match self.table.get() {
            Some(table) => table.holder(session.client(), &self.origin).await?,
            None => match Table::find(session.client(), self.schema.as_deref()).await? {
                Some(table) => table.holder(session.client(), &self.origin).await?,
                None => None,
            },
        };
        session.give_back();
        Ok(found)
    }

    pub(super) fn source(&self) -> &Source {
        &self.origin.source
    }

    async fn table(&self) -> Result<&Arc<Table>> {
        let make = || async { Table::make(&self.origin, self.schema.as_deref()).await.map(Arc::new) };
        self.table.get_or_try_init(make).await
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection for what is done under a lease.
pub struct LeaseSession(pub(super) Session);

impl LeaseSession {
    /// Gives back one on which nothing was changed.
    pub(crate) fn give_back(self) {
        self.0.give_back();
    }
}

impl fmt::Debug for LeaseSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseSession").finish_non_exhaustive()
    }
}

impl Deref for LeaseSession {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.0.client()
    }
}

impl DerefMut for LeaseSession {
    fn deref_mut(&mut self) -> &mut Client {
        self.0.client_mut()
    }
}

/// Asks for a lease once. A grant whose answer was lost is found again by its nonce.
async fn ask(origin: Arc<Origin>, table: Arc<Table>, holder: HolderName, ttl: Ttl) -> Result<Option<Held>> {
    let nonce = Nonce::random()?;
    let sent = HostClock.boot();
    let granted = match table.grant(&origin, &holder, &nonce, ttl).await {
        Err(error) if matches!(error.kind(), Kind::Unavailable | Kind::UnknownOutcome) => {
            table.grant(&origin, &holder, &nonce, ttl).await?
        }
        answer => answer?,
    };
    let deadline = Deadline::of_request(sent, ttl, margin(ttl));
    Ok(granted.map(|epoch| Held::new(origin, table, epoch, ttl, deadline)))
}

/// How much earlier than the server a holder takes its grant for over: for clocks that run apart, and to stop what it does.
fn margin(ttl: Ttl) -> Duration {
    ttl.get() / 10
}

/// The epoch of a row.
fn epoch(stored: i64) -> Result<Epoch> {
    Epoch::new(stored).map_err(|cause| Error::new(Kind::Corrupt, "a stored epoch is none").caused_by(cause))
}
