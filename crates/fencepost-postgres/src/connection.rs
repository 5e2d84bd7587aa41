//! Connections: a bounded pool, and calls of one statement each, bounded and safe to drop.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType};
use fencepost_core::refusal::store_closed;
use fencepost_core::{Error, Kind, Result};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{CancelToken, Client, IsolationLevel, NoTls, Row};

use crate::error::{Effect, call_error, connect_error, met_a_drop, unanswered};
use crate::options::PostgresOptions;
use crate::tls::Tls;
use crate::url::Target;

/// A value of a call with its type, so that the statement needs no name on the server.
pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// How long a cancelled call may take to say what became of it.
const GRACE: Duration = Duration::from_secs(1);

/// The pool of one store.
pub(crate) struct Connections {
    pool: Pool,
    target: Target,
    tls: Tls,
    call_timeout: Duration,
    /// Whether sessions here begin transactions at another isolation level than READ COMMITTED, so that each call has to say it.
    says_isolation: AtomicBool,
}

impl Connections {
    pub(crate) fn new(url: &str, options: &PostgresOptions) -> Result<Self> {
        let target = Target::parse(url, options)?;
        let tls = Tls::new(&target.trust)?;
        let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = match &tls {
            Tls::Plain => Manager::from_config(target.config.clone(), NoTls, config),
            #[cfg(feature = "tls")]
            Tls::Rustls(tls) => Manager::from_config(target.config.clone(), tls.clone(), config),
        };
        let pool = Pool::builder(manager)
            .max_size(options.pool_size)
            .wait_timeout(Some(options.pool_timeout))
            .create_timeout(Some(options.connect_timeout))
            .recycle_timeout(Some(options.connect_timeout))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|cause| Error::new(Kind::Internal, "cannot make a pool of connections").caused_by(cause))?;
        let says_isolation = AtomicBool::new(false);
        Ok(Self { pool, target, tls, call_timeout: options.call_timeout, says_isolation })
    }

    /// Where the server is, without secrets.
    pub(crate) fn location(&self) -> &str {
        &self.target.location
    }

    pub(crate) fn config(&self) -> &tokio_postgres::Config {
        &self.target.config
    }

    pub(crate) fn tls(&self) -> &Tls {
        &self.tls
    }

    pub(crate) fn close(&self) {
        self.pool.close();
    }

    /// Runs one statement in a transaction of its own.
    ///
    /// One that met a drop in flight failed as a whole, and is asked again: then it is judged by what is true after the drop.
    pub(crate) async fn run(&self, effect: Effect, sql: &str, values: &[Parameter<'_>]) -> Result<Vec<Row>> {
        match self.run_once(effect, sql, values).await {
            Err(error) if error.fact("sqlstate").is_some_and(met_a_drop) => self.run_once(effect, sql, values).await,
            answer => answer,
        }
    }

    async fn run_once(&self, effect: Effect, sql: &str, values: &[Parameter<'_>]) -> Result<Vec<Row>> {
        if !self.says_isolation.load(Ordering::Relaxed) {
            match self.run_plain(effect, sql, values).await {
                Err(refused) if refused.kind() == Kind::Unsupported && refused.fact("isolation").is_some() => {
                    self.says_isolation.store(true, Ordering::Relaxed);
                }
                answer => return answer,
            }
        }
        self.run_at_read_committed(effect, sql, values).await
    }

    async fn run_plain(&self, effect: Effect, sql: &str, values: &[Parameter<'_>]) -> Result<Vec<Row>> {
        let lent = self.lend().await?;
        let call = async {
            let answer = lent.client().query_typed(sql, values).await;
            if answer.as_ref().is_err_and(|error| error.as_db_error().is_some()) {
                // ORDER: the server reports an error before it lets go what the statement had locked, and answers the next one after.
                let _ = lent.client().simple_query("").await;
            }
            answer
        };
        let answer = self.bounded(effect, lent.client().cancel_token(), call).await;
        lent.give_back_after(answer)
    }

    /// Runs several statements in one transaction.
    pub(crate) async fn run_all(&self, calls: &[(&'static str, &[Parameter<'_>])]) -> Result<Vec<Vec<Row>>> {
        let mut lent = self.lend().await?;
        let cancel = lent.client().cancel_token();
        let call = async {
            let begin = lent.client_mut().build_transaction().isolation_level(IsolationLevel::ReadCommitted);
            let transaction = begin.read_only(false).start().await?;
            let mut answers = Vec::with_capacity(calls.len());
            for (sql, values) in calls {
                answers.push(transaction.query_typed(sql, values).await?);
            }
            transaction.commit().await?;
            Ok(answers)
        };
        let answer = self.bounded(Effect::Write, cancel, call).await;
        lent.give_back_after(answer)
    }

    async fn run_at_read_committed(&self, effect: Effect, sql: &str, values: &[Parameter<'_>]) -> Result<Vec<Row>> {
        let mut lent = self.lend().await?;
        let cancel = lent.client().cancel_token();
        let call = async {
            let begin = lent.client_mut().build_transaction().isolation_level(IsolationLevel::ReadCommitted);
            let transaction = begin.read_only(false).start().await?;
            let rows = transaction.query_typed(sql, values).await?;
            transaction.commit().await?;
            Ok(rows)
        };
        let answer = self.bounded(effect, cancel, call).await;
        lent.give_back_after(answer)
    }

    /// Waits for a call as long as a call may take, then cancels it on the server and hears what became of it.
    async fn bounded<T>(
        &self,
        effect: Effect,
        cancel: CancelToken,
        call: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        let mut call = pin!(call);
        if let Ok(answer) = tokio::time::timeout(self.call_timeout, &mut call).await {
            return answer.map_err(|error| call_error(error, effect));
        }
        let last = async {
            self.cancel(cancel).await;
            call.await
        };
        match tokio::time::timeout(GRACE, last).await {
            Ok(answer) => answer.map_err(|error| call_error(error, effect)),
            Err(_) => Err(unanswered(effect)),
        }
    }

    async fn cancel(&self, token: CancelToken) {
        // Whether it arrives or not, the call's own answer tells.
        let _ = match &self.tls {
            Tls::Plain => token.cancel_query(NoTls).await,
            #[cfg(feature = "tls")]
            Tls::Rustls(tls) => token.cancel_query(tls.clone()).await,
        };
    }

    /// Takes a connection out of the pool, or makes one.
    pub(crate) async fn lend(&self) -> Result<Lent> {
        match self.pool.get().await {
            Ok(object) => Ok(Lent { object: Some(object), is_clean: false }),
            Err(error) => Err(self.refusal(error)),
        }
    }

    /// Makes a connection beside the pool.
    pub(crate) async fn client(&self) -> Result<Client> {
        let config = self.config();
        let connected = match &self.tls {
            Tls::Plain => config.connect(NoTls).await.map(|(client, connection)| {
                tokio::spawn(connection);
                client
            }),
            #[cfg(feature = "tls")]
            Tls::Rustls(tls) => config.connect(tls.clone()).await.map(|(client, connection)| {
                tokio::spawn(connection);
                client
            }),
        };
        connected.map_err(|error| self.unconnected(error))
    }

    fn attempting(&self, error: Error) -> Error {
        error.attempting(format_args!("cannot connect to `{}`", self.location()))
    }

    fn unconnected(&self, error: tokio_postgres::Error) -> Error {
        self.attempting(connect_error(error, self.target.config.get_password().is_some()))
    }

    fn refusal(&self, error: PoolError) -> Error {
        match error {
            PoolError::Closed => store_closed(),
            PoolError::Timeout(TimeoutType::Wait) => Error::new(
                Kind::Unavailable,
                "cannot call the server: every connection of the store is in use",
            )
            .coded("pool_exhausted")
            .hinted(
                "calls take long, or the pool is small for as many callers; PostgresOptions::pool_size sets its size",
            ),
            PoolError::Timeout(_) => self.attempting(
                Error::new(Kind::Unavailable, "nothing answers there in time")
                    .coded("unreachable")
                    .hinted("check host and port of the url, and that nothing in between swallows the connection"),
            ),
            PoolError::Backend(error) => self.unconnected(error),
            error => Error::new(Kind::Internal, "cannot take a connection out of the pool").caused_by(error),
        }
    }
}

/// A connection out of the pool. It goes back only after its last call was heard to its end; dropped before, it is closed, which ends
/// on the server whatever it had begun.
pub(crate) struct Lent {
    object: Option<Object>,
    is_clean: bool,
}

impl Lent {
    fn client(&self) -> &Client {
        self.object.as_ref().expect("it is lent until it is dropped")
    }

    pub(crate) fn client_mut(&mut self) -> &mut Client {
        self.object.as_mut().expect("it is lent until it is dropped")
    }

    /// Gives the connection back unless nobody knows what it is doing.
    pub(crate) fn give_back_after<T>(mut self, answer: Result<T>) -> Result<T> {
        self.is_clean = match &answer {
            Ok(_) => true,
            Err(error) => {
                !matches!(error.kind(), Kind::UnknownOutcome) && !matches!(error.code(), "timeout" | "connection_lost")
            }
        };
        answer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(object) = self.object.take()
            && !self.is_clean
        {
            drop(Object::take(object));
        }
    }
}
