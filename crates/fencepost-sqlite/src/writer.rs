//! The one thread that writes, with group commit: callers that arrive together share one durable transaction, a savepoint each,
//! and every one is answered after the commit. When SQLite rolls the whole group back, every caller hears it.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fencepost_core::refusal::store_closed;
use fencepost_core::{Error, Kind, Result};
use rusqlite::Connection;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::yield_now;

use crate::error::{commit_error, driver_error, rolled_back};
use crate::options::SqliteOptions;
use crate::state::{Group, Shared};

/// How many calls may wait for the writer; more wait in their own tasks.
const WAITING: usize = 1_024;

/// How many calls share one transaction at most.
const GROUP: usize = 512;

/// How long a transaction takes in further calls.
const GROUP_TIME: Duration = Duration::from_millis(5);

/// How long a transaction waits for the callers of the last one to come back, who were all answered at the same moment.
const GATHER: Duration = Duration::from_micros(200);

/// After holding the write lock for so long without a pause ...
const TURN: Duration = Duration::from_millis(20);

/// ... the writer leaves it alone for so long, so that another process, which polls for it more often, gets its turn.
const PAUSE: Duration = Duration::from_millis(1);

/// How long the writer stays awake without work, and a caller without an answer.
const AWAKE: Duration = Duration::from_micros(100);

/// How long to wait before the write lock is tried again, growing from the first to the second.
const RETRY: (Duration, Duration) = (Duration::from_micros(100), Duration::from_micros(500));

/// What undoes a call that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undo {
    /// A savepoint around it.
    Savepoint,
    /// Nothing: it writes by one statement, which SQLite undoes by itself.
    Statement,
}

/// One call, made into something that the writer can run and answer.
pub(crate) trait Call: Send {
    /// When it was made.
    fn since(&self) -> Instant;
    fn is_abandoned(&self) -> bool;
    fn undo(&self) -> Undo;
    /// Looks outside the write lock, while no transaction is open, whether there is anything to write; if not, it can be answered.
    fn look(&mut self, connection: &Connection) -> bool;
    fn run(&mut self, group: &mut Group<'_>) -> Result<(), Error>;
    fn answer(self: Box<Self>, ended: Ended<'_>);
}

/// How the transaction of a call ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ended<'e> {
    Committed,
    /// Nothing of it is stored, so a refusal is not true either that was judged by what somebody else did in it.
    Undone(&'e Error),
    /// Nothing of it is stored because of this very call.
    UndoneByThis(&'e Error),
}

pub(crate) struct Pending<T, F> {
    undo: Undo,
    since: Instant,
    pub(crate) work: Option<F>,
    pub(crate) result: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T, F> Pending<T, F> {
    pub(crate) fn new(undo: Undo, work: Option<F>, reply: oneshot::Sender<Result<T>>) -> Self {
        Self { undo, since: Instant::now(), work, result: None, reply }
    }

    /// Keeps an error as the answer, and returns what the group hears of it.
    pub(crate) fn fail(&mut self, error: Error) -> Result<(), Error> {
        let shared = error.shared();
        self.result = Some(Err(error));
        Err(shared)
    }
}

pub(crate) fn panicked() -> Error {
    Error::new(Kind::Internal, "cannot finish the call: it panicked and was rolled back")
}

impl<T, F> Call for Pending<T, F>
where
    T: Send,
    F: FnOnce(&mut Group<'_>) -> Result<T> + Send,
{
    fn since(&self) -> Instant {
        self.since
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    fn undo(&self) -> Undo {
        self.undo
    }

    fn look(&mut self, _connection: &Connection) -> bool {
        false
    }

    fn run(&mut self, group: &mut Group<'_>) -> Result<(), Error> {
        let work = self.work.take().expect("a call runs once");
        match std::panic::catch_unwind(AssertUnwindSafe(|| work(group))).unwrap_or_else(|_| Err(panicked())) {
            Ok(value) => {
                self.result = Some(Ok(value));
                Ok(())
            }
            Err(error) => self.fail(error),
        }
    }

    fn answer(self: Box<Self>, ended: Ended<'_>) {
        let result = match (self.result, ended) {
            (Some(result), Ended::Committed) => result,
            (Some(Err(own)), Ended::UndoneByThis(_)) => Err(own),
            (_, Ended::Undone(error) | Ended::UndoneByThis(error)) => Err(error.shared()),
            (None, Ended::Committed) => Err(Error::new(Kind::Internal, "cannot answer a call that did not run")),
        };
        // A caller that went away does not hear what happened; a nonce lets it ask again.
        let _ = self.reply.send(result);
    }
}

pub(crate) enum Order {
    Call(Box<dyn Call>),
    Between(Box<dyn FnOnce() + Send>),
}

/// The sending end of the writer's queue.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Mutex<Option<mpsc::Sender<Order>>>,
    is_busy: Arc<AtomicBool>,
    ended: watch::Receiver<()>,
}

impl Writer {
    /// Starts the writer on `connection`; it ends when the store is closed or dropped, after the threads of the readers.
    pub(crate) fn start(
        connection: Connection,
        shared: Arc<Shared>,
        options: &SqliteOptions,
        readers: Vec<JoinHandle<()>>,
    ) -> Result<Self> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let (ending, ended) = watch::channel(());
        // The loop below waits for the lock by itself: SQLite's own waits are too coarse to be fair.
        connection.busy_timeout(Duration::ZERO).map_err(driver_error)?;
        let busy_timeout = options.busy_timeout;
        let is_busy = Arc::new(AtomicBool::new(false));
        let busy = is_busy.clone();
        thread::Builder::new()
            .name("fencepost-write".into())
            .spawn(move || {
                let now = Instant::now();
                let state = Loop { connection, shared, receiver, busy, busy_timeout, turn: now, free: now, last: 0 };
                let connection = state.run();
                // ORDER: this connection is the last of the store: closing the last one brings the write-ahead log into the file
                // and removes it, but not while another one is just being closed.
                readers.into_iter().for_each(|reader| drop(reader.join()));
                drop(connection);
                drop(ending);
            })
            .map_err(|cause| Error::new(Kind::Unavailable, "cannot start the writer thread").caused_by(cause))?;
        Ok(Self { queue: Mutex::new(Some(sender)), is_busy, ended })
    }

    pub(crate) fn queue(&self) -> Result<mpsc::Sender<Order>> {
        self.queue.lock().expect("no panic while the queue is held").clone().ok_or_else(store_closed)
    }

    /// Runs `work` in a shared transaction, undone alone when it fails, and returns what it returned once that is durable.
    ///
    /// Cancel-safe: dropped before its turn, the work does not run; dropped later, it commits or not as a whole.
    pub(crate) async fn run<T, F>(&self, undo: Undo, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Group<'_>) -> Result<T> + Send + 'static,
    {
        self.submit(|reply| Pending::new(undo, Some(work), reply)).await
    }

    /// Hands a call to the writer and waits for its answer.
    pub(crate) async fn submit<T, C>(&self, call: impl FnOnce(oneshot::Sender<Result<T>>) -> C) -> Result<T>
    where
        C: Call + 'static,
    {
        let queue = self.queue()?;
        let was_idle = self.is_idle();
        let (reply, answer) = oneshot::channel();
        queue.send(Order::Call(Box::new(call(reply)))).await.map_err(|_| store_closed())?;
        drop(queue);
        // An idle writer often answers sooner than a thread wakes up, so the caller stays awake for a moment, too, while other tasks
        // of its thread go on.
        let since = Instant::now();
        while was_idle && answer.is_empty() && since.elapsed() < AWAKE {
            yield_now().await;
        }
        answer.await.unwrap_or_else(|_| Err(store_closed()))
    }

    /// Whether nothing runs or waits. By the time of the answer it may have changed.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_busy.load(Ordering::Relaxed) && self.queue().is_ok_and(|queue| queue.capacity() == WAITING)
    }

    /// Runs `work` on the writer's thread while no transaction of this store is open.
    pub(crate) async fn between<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let order = Order::Between(Box::new(move || {
            let done = std::panic::catch_unwind(AssertUnwindSafe(work));
            let _ = reply.send(done.map_err(|_| Error::new(Kind::Internal, "cannot finish the work: it panicked")));
        }));
        self.queue()?.send(order).await.map_err(|_| store_closed())?;
        answer.await.unwrap_or_else(|_| Err(store_closed()))
    }

    /// Takes no more calls. Returns what waits until the accepted ones are answered and every connection is closed.
    pub(crate) fn close(&self) -> impl Future<Output = ()> + use<> {
        self.queue.lock().expect("no panic while the queue is held").take();
        let mut ended = self.ended.clone();
        async move { while ended.changed().await.is_ok() {} }
    }
}

struct Loop {
    connection: Connection,
    shared: Arc<Shared>,
    receiver: mpsc::Receiver<Order>,
    /// Whether something runs.
    busy: Arc<AtomicBool>,
    busy_timeout: Duration,
    turn: Instant,
    /// When this store last gave the write lock back.
    free: Instant,
    /// How many callers the last transaction answered.
    last: usize,
}

impl Loop {
    /// Runs until no more orders can come, and returns the connection.
    fn run(mut self) -> Connection {
        while let Some(order) = self.next() {
            self.busy.store(true, Ordering::Relaxed);
            match order {
                Order::Between(work) => work(),
                Order::Call(mut first) => {
                    if !first.is_abandoned() && first.look(&self.connection) {
                        self.busy.store(false, Ordering::Relaxed);
                        first.answer(Ended::Committed);
                    } else if let Some(work) = self.group(first) {
                        work();
                    }
                }
            }
            self.busy.store(false, Ordering::Relaxed);
        }
        self.connection
    }

    /// The next order; `None` when the store is closed and all were carried out. A caller that was just answered often calls again at
    /// once, sooner than a thread wakes up, so the writer stays awake for a moment.
    fn next(&mut self) -> Option<Order> {
        let since = Instant::now();
        loop {
            match self.receiver.try_recv() {
                Ok(order) => return Some(order),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) if since.elapsed() >= AWAKE => return self.receiver.blocking_recv(),
                Err(TryRecvError::Empty) => thread::yield_now(),
            }
        }
    }

    /// Runs one shared transaction, from the first call to the last answer.
    fn group(&mut self, first: Box<dyn Call>) -> Option<Box<dyn FnOnce() + Send>> {
        let mut done: Vec<Box<dyn Call>> = Vec::new();
        let (mut between, mut breaker) = (None, None);
        let ended = match self.begin(first.since()).and_then(|()| self.shared.file.check()) {
            Err(error) => {
                done.push(first);
                Err(error)
            }
            Ok(()) => {
                let shared = self.shared.clone();
                let mut group = Group::new(&self.connection, &shared);
                let filled = fill(&mut group, first, &mut self.receiver, &mut done, &mut between, self.last);
                breaker = filled.is_err().then(|| done.len().saturating_sub(1));
                filled.and_then(|()| commit(group))
            }
        };
        if ended.is_err() && !self.connection.is_autocommit() {
            // Nothing of the group is kept; an error here means that it is gone already.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        if !ended.as_ref().is_err_and(|error| error.kind() == Kind::Busy) {
            self.free = Instant::now();
        }
        self.last = done.len();
        // ORDER: whoever is answered and calls again at once finds the writer idle.
        self.busy.store(between.is_some(), Ordering::Relaxed);
        for (index, call) in done.into_iter().enumerate() {
            call.answer(match &ended {
                Ok(()) => Ended::Committed,
                Err(error) if breaker == Some(index) => Ended::UndoneByThis(error),
                Err(error) => Ended::Undone(error),
            });
        }
        between
    }

    /// Takes the write lock: BEGIN IMMEDIATE, tried again until the bound.
    ///
    /// The bound counts from when the call was made, as calls that wait in a row for somebody else's lock wait for the same one,
    /// but not while this store itself had it.
    fn begin(&mut self, since: Instant) -> Result<()> {
        if self.receiver.is_empty() {
            self.turn = Instant::now();
        } else if self.turn.elapsed() >= TURN {
            thread::sleep(PAUSE);
            self.turn = Instant::now();
        }
        let started = since.max(self.free);
        let mut wait = RETRY.0;
        loop {
            match self.connection.execute_batch("BEGIN IMMEDIATE") {
                Ok(()) => return Ok(()),
                Err(error) => {
                    let error = driver_error(error);
                    if error.kind() != Kind::Busy || started.elapsed() >= self.busy_timeout {
                        return Err(error.with("waited_ms", started.elapsed().as_millis()));
                    }
                }
            }
            thread::sleep(wait);
            wait = (wait * 2).min(RETRY.1);
        }
    }
}

fn fill(
    group: &mut Group<'_>,
    first: Box<dyn Call>,
    receiver: &mut mpsc::Receiver<Order>,
    done: &mut Vec<Box<dyn Call>>,
    between: &mut Option<Box<dyn FnOnce() + Send>>,
    expected: usize,
) -> Result<()> {
    let started = Instant::now();
    let mut next = Some(first);
    while let Some(mut call) = next.take() {
        if !call.is_abandoned() {
            let ran = match call.undo() {
                Undo::Savepoint => group.savepoint(|group| call.run(group)),
                Undo::Statement => group.statement(|group| call.run(group)),
            };
            done.push(call);
            ran?;
        }
        while next.is_none() && done.len() < GROUP && started.elapsed() < GROUP_TIME {
            match receiver.try_recv() {
                Ok(Order::Call(call)) => next = Some(call),
                Ok(Order::Between(work)) => {
                    // ORDER: what wants no transaction open ends this group and runs right after it.
                    *between = Some(work);
                    return Ok(());
                }
                Err(_) if done.len() < expected && started.elapsed() < GATHER => thread::yield_now(),
                Err(_) => break,
            }
        }
    }
    Ok(())
}

fn commit(mut group: Group<'_>) -> Result<()> {
    group.flush()?;
    group.connection().execute_batch("COMMIT").map_err(commit_error)?;
    group.committed();
    Ok(())
}

/// Whether SQLite still has the transaction in which `error` arose. It gives the whole of it up when the storage is full or
/// fails, when a statement that writes is interrupted, and where a constraint says ROLLBACK.
pub(crate) fn survived(connection: &Connection, error: &Error) -> Result<()> {
    if connection.is_autocommit() { Err(rolled_back(error)) } else { Ok(()) }
}
