//! Connections: a bounded pool, and calls of one statement each, bounded and safe to drop.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::{Manager, Metrics, Object, Pool, PoolError, RecycleError, RecycleResult};
use fencepost_connect::{Cancel, Connector, Open};
use fencepost_core::refusal::store_closed;
use fencepost_core::{Error, Kind, Result};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, IsolationLevel, Row};

use crate::error::{Effect, call_error, met_a_drop, unanswered};
use crate::numbered::Numbers;
use crate::options::PostgresOptions;

/// A value of a call with its type, so that the statement needs no name on the server.
pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// How long a cancelled call may take to say what became of it, and a refused one to let go.
const GRACE: Duration = Duration::from_secs(1);

/// The pool of one store.
pub(crate) struct Connections {
    pool: Pool<Making>,
    connector: Arc<Connector>,
    /// Where notifications are listened for.
    ears: Arc<Connector>,
    call_timeout: Duration,
    runtime: Handle,
    /// Whether sessions here begin transactions at another isolation level than READ COMMITTED, so that each call has to say it.
    says_isolation: AtomicBool,
}

/// How the pool makes connections.
struct Making(Arc<Connector>);

/// A connection of the pool, with what was learned from the server that it leads to.
struct Pooled {
    open: Open,
    numbers: Numbers,
}

impl Manager for Making {
    type Type = Pooled;
    type Error = Error;

    async fn create(&self) -> Result<Pooled> {
        Ok(Pooled { open: self.0.open(None).await?, numbers: Numbers::default() })
    }

    async fn recycle(&self, pooled: &mut Pooled, _: &Metrics) -> RecycleResult<Error> {
        if pooled.open.client.is_closed() { Err(RecycleError::message("it was closed")) } else { Ok(()) }
    }
}

/// What was heard of a call.
struct Heard<T> {
    /// Nothing, when nobody knows what the server does.
    answer: Option<T>,
    /// A cancel that was sent may arrive late, and hit whatever the connection does then.
    was_cancelled: bool,
}

impl Connections {
    pub(crate) fn new(url: &str, options: &PostgresOptions, runtime: Handle) -> Result<Self> {
        let connector = Arc::new(Connector::new(url, options.connect_timeout)?);
        let ears = match &options.listen_url {
            Some(url) => Arc::new(Connector::new(url, options.connect_timeout)?),
            None => connector.clone(),
        };
        // Making a connection is bounded by the connector, which knows how many addresses there are to try.
        let pool = Pool::builder(Making(connector.clone()))
            .max_size(options.pool_size)
            .wait_timeout(Some(options.pool_timeout))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|cause| Error::new(Kind::Internal, "cannot make a pool of connections").caused_by(cause))?;
        let (call_timeout, says_isolation) = (options.call_timeout, AtomicBool::new(false));
        Ok(Self { pool, connector, ears, call_timeout, runtime, says_isolation })
    }

    /// Where the server is, without secrets.
    pub(crate) fn location(&self) -> &str {
        self.connector.location()
    }

    pub(crate) fn connector(&self) -> &Arc<Connector> {
        &self.connector
    }

    /// Makes the connection that listens.
    pub(crate) fn ears(&self) -> &Arc<Connector> {
        &self.ears
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
        self.run_on(&mut self.lend().await?, effect, sql, values).await
    }

    /// Runs one statement in a transaction of its own, once, on a connection that was taken before.
    pub(crate) async fn run_on(
        &self,
        lent: &mut Lent,
        effect: Effect,
        sql: &str,
        values: &[Parameter<'_>],
    ) -> Result<Vec<Row>> {
        if !self.says_isolation.load(Ordering::Relaxed) {
            match self.run_plain(lent, effect, sql, values).await {
                Err(refused) if refused.kind() == Kind::Unsupported && refused.fact("isolation").is_some() => {
                    self.says_isolation.store(true, Ordering::Relaxed);
                    if !lent.is_idle() {
                        // ORDER: its place in the pool is free before another one is taken.
                        lent.part();
                        *lent = self.lend().await?;
                    }
                }
                answer => return answer,
            }
        }
        let mut answers = self.run_all_on(lent, effect, &[(sql, values)]).await?;
        Ok(answers.pop().unwrap_or_default())
    }

    async fn run_plain(
        &self,
        lent: &mut Lent,
        effect: Effect,
        sql: &str,
        values: &[Parameter<'_>],
    ) -> Result<Vec<Row>> {
        let cancel = lent.cancel();
        let client = lent.begin();
        let call = async {
            let answer = client.query_typed(sql, values).await;
            let has_let_go = match &answer {
                Err(error) if error.as_db_error().is_some() => {
                    // ORDER: the server reports an error before it lets go what the statement had locked, and answers the next one after.
                    // What it reported stands, whatever becomes of that.
                    timeout(GRACE, client.simple_query("")).await.is_ok_and(|answer| answer.is_ok())
                }
                answer => answer.is_ok(),
            };
            (answer.map_err(|error| call_error(error, effect)), has_let_go)
        };
        let heard = self.bounded(cancel, call).await;
        lent.end(heard, effect)
    }

    /// Runs several statements in one transaction.
    pub(crate) async fn run_all(&self, calls: &[(&str, &[Parameter<'_>])]) -> Result<Vec<Vec<Row>>> {
        self.run_all_on(&mut self.lend().await?, Effect::Write, calls).await
    }

    async fn run_all_on(
        &self,
        lent: &mut Lent,
        effect: Effect,
        calls: &[(&str, &[Parameter<'_>])],
    ) -> Result<Vec<Vec<Row>>> {
        let cancel = lent.cancel();
        let client = lent.begin();
        // Until the end was asked for nothing has happened, whatever is lost.
        let ends = AtomicBool::new(false);
        let call = async {
            let begin = client.build_transaction().isolation_level(IsolationLevel::ReadCommitted);
            let transaction = match begin.read_only(false).start().await {
                Ok(transaction) => transaction,
                Err(error) => return (Err(call_error(error, Effect::Read)), false),
            };
            let work = async {
                let mut answers = Vec::with_capacity(calls.len());
                for (sql, values) in calls {
                    answers.push(transaction.query_typed(sql, values).await?);
                }
                Ok(answers)
            };
            match work.await {
                Ok(answers) => {
                    ends.store(true, Ordering::Relaxed);
                    match transaction.commit().await {
                        Ok(()) => (Ok(answers), true),
                        Err(error) => (Err(call_error(error, effect)), false),
                    }
                }
                Err(error) => {
                    // ORDER: what it had locked is free when the error is answered.
                    let has_let_go = timeout(GRACE, transaction.rollback()).await.is_ok_and(|answer| answer.is_ok());
                    (Err(call_error(error, Effect::Read)), has_let_go)
                }
            }
        };
        let heard = self.bounded(cancel, call).await;
        let effect = if ends.load(Ordering::Relaxed) { effect } else { Effect::Read };
        lent.end(heard, effect)
    }

    /// Lets somebody else read on a connection of the pool, for as long as a call may take.
    pub(crate) async fn read_by<T>(&self, read: impl AsyncFnOnce(&Client) -> Result<T>) -> Result<T> {
        let mut lent = self.lend().await?;
        match timeout(self.call_timeout, read(lent.begin())).await {
            Ok(answer) => lent.end_with(answer),
            Err(_) => Err(unanswered(Effect::Read)),
        }
    }

    /// Waits for a call as long as a call may take, then cancels it on the server and hears what became of it.
    async fn bounded<T>(&self, cancel: Cancel, call: impl Future<Output = T>) -> Heard<T> {
        let mut call = pin!(call);
        if let Ok(answer) = timeout(self.call_timeout, &mut call).await {
            return Heard { answer: Some(answer), was_cancelled: false };
        }
        let last = async {
            tokio::select! {
                answer = call => answer,
                () = async { self.connector.cancel(cancel).await; std::future::pending().await } => unreachable!("it never ends"),
            }
        };
        Heard { answer: timeout(GRACE, last).await.ok(), was_cancelled: true }
    }

    /// Takes a connection out of the pool, or makes one.
    pub(crate) async fn lend(&self) -> Result<Lent> {
        let object = self.pool.get().await.map_err(refusal)?;
        let (connector, runtime) = (self.connector.clone(), self.runtime.clone());
        Ok(Lent { object: Some(object), state: State::Idle, connector, runtime })
    }
}

fn refusal(error: PoolError<Error>) -> Error {
    match error {
        PoolError::Closed => store_closed(),
        PoolError::Timeout(_) => Error::new(
            Kind::Unavailable,
            "cannot call the server: every connection of the store is in use",
        )
        .coded("pool_exhausted")
        .hinted("calls take long, or the pool is small for as many callers; PostgresOptions::pool_size sets its size"),
        PoolError::Backend(error) => error,
        error => Error::new(Kind::Internal, "cannot take a connection out of the pool").caused_by(error),
    }
}

/// A connection out of the pool. It goes back only after its last call was heard to its end, and no cancel of it is under way.
/// Dropped in the middle of a call, the call is cancelled and the connection closed: a server that waits for a lock, or computes, does
/// not notice by itself that nobody listens any more.
pub(crate) struct Lent {
    object: Option<Object<Making>>,
    state: State,
    connector: Arc<Connector>,
    runtime: Handle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It can be used again.
    Idle,
    /// A call was begun and not heard to its end.
    Calling,
    /// Nobody knows what it does.
    Spoiled,
}

impl Lent {
    fn pooled(&mut self) -> &mut Pooled {
        self.object.as_mut().expect("it is lent until it is dropped")
    }

    /// The numbers of queues on the server that it leads to.
    pub(crate) fn numbers(&mut self) -> &mut Numbers {
        &mut self.pooled().numbers
    }

    fn cancel(&mut self) -> Cancel {
        self.pooled().open.cancel()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.state == State::Idle
    }

    /// Begins a call, whose end is to be told.
    pub(crate) fn begin(&mut self) -> &mut Client {
        self.state = State::Calling;
        &mut self.pooled().open.client
    }

    /// Tells the end of a call by its answer.
    pub(crate) fn end_with<T>(&mut self, answer: Result<T>) -> Result<T> {
        self.end(Heard { answer: Some((answer, true)), was_cancelled: false }, Effect::Write)
    }

    fn end<T>(&mut self, heard: Heard<(Result<T>, bool)>, effect: Effect) -> Result<T> {
        let (answer, has_let_go) = heard.answer.unwrap_or_else(|| (Err(unanswered(effect)), false));
        let is_known = match &answer {
            Ok(_) => true,
            Err(error) => {
                !matches!(error.kind(), Kind::UnknownOutcome) && !matches!(error.code(), "timeout" | "connection_lost")
            }
        };
        self.state = if is_known && has_let_go && !heard.was_cancelled { State::Idle } else { State::Spoiled };
        answer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.part();
    }
}

impl Lent {
    /// Gives the connection back, or closes it.
    fn part(&mut self) {
        let Some(object) = self.object.take().filter(|_| self.state != State::Idle) else { return };
        let pooled = Object::take(object);
        if self.state == State::Calling && !pooled.open.client.is_closed() {
            let (connector, cancel) = (self.connector.clone(), pooled.open.cancel());
            self.runtime.spawn(async move {
                let _ = timeout(GRACE, connector.cancel(cancel)).await;
                // ORDER: closed after the cancel: a pooler knows whom it means only for as long as the connection is there.
                drop(pooled);
            });
        }
    }
}
