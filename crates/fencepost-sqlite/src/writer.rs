//! The one thread that writes, with group commit: callers that arrive together share one durable transaction, a savepoint each,
//! and every one is answered after the commit. When SQLite rolls the whole group back, every caller hears it.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fencepost_core::{Error, Kind, Result};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::error::{commit_error, driver_error, rolled_back};
use crate::options::SqliteOptions;
use crate::state::{Group, Shared};
use crate::store::closed;

/// How many calls may wait for the writer; more wait in their own tasks.
const WAITING: usize = 1_024;

/// How many calls share one transaction at most.
const GROUP: usize = 512;

/// How long a transaction takes in further calls.
const GROUP_TIME: Duration = Duration::from_millis(5);

/// After holding the write lock for so long without a pause ...
const TURN: Duration = Duration::from_millis(20);

/// ... the writer leaves it alone for so long, so that another process, which polls for it more often, gets its turn.
const PAUSE: Duration = Duration::from_millis(1);

/// How long to wait before the write lock is tried again, growing from the first to the second.
const RETRY: (Duration, Duration) = (Duration::from_micros(100), Duration::from_micros(500));

/// One call, made into something that the writer can run and answer.
trait Call: Send {
    fn is_abandoned(&self) -> bool;
    fn run(&mut self, group: &mut Group<'_>) -> Result<(), Error>;
    fn answer(self: Box<Self>, committed: Result<(), &Error>);
}

struct Pending<T, F> {
    work: Option<F>,
    result: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T, F> Call for Pending<T, F>
where
    T: Send,
    F: FnOnce(&mut Group<'_>) -> Result<T> + Send,
{
    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    fn run(&mut self, group: &mut Group<'_>) -> Result<(), Error> {
        let work = self.work.take().expect("a call runs once");
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| work(group))).unwrap_or_else(|_| {
            Err(Error::new(Kind::Internal, "cannot finish the call: it panicked and was rolled back"))
        });
        match result {
            Ok(value) => {
                self.result = Some(Ok(value));
                Ok(())
            }
            Err(error) => {
                let shared = error.shared();
                self.result = Some(Err(error));
                Err(shared)
            }
        }
    }

    fn answer(self: Box<Self>, committed: Result<(), &Error>) {
        let result = match (self.result, committed) {
            (Some(Err(own)), _) => Err(own),
            (_, Err(error)) => Err(error.shared()),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (None, Ok(())) => Err(Error::new(Kind::Internal, "cannot answer a call that did not run")),
        };
        // A caller that went away does not hear what happened; a nonce lets it ask again.
        let _ = self.reply.send(result);
    }
}

enum Order {
    Call(Box<dyn Call>),
    Between(Box<dyn FnOnce() + Send>),
}

/// The sending end of the writer's queue.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Mutex<Option<mpsc::Sender<Order>>>,
    stopped: Mutex<Option<oneshot::Receiver<()>>>,
}

impl Writer {
    /// Starts the writer on `connection`; it ends when the store is closed or dropped.
    pub(crate) fn start(connection: Connection, shared: Arc<Shared>, options: &SqliteOptions) -> Result<Self> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let (stopping, stopped) = oneshot::channel();
        // The loop below waits for the lock by itself: SQLite's own waits are too coarse to be fair.
        connection.busy_timeout(Duration::ZERO).map_err(driver_error)?;
        let busy_timeout = options.busy_timeout;
        thread::Builder::new()
            .name("fencepost-write".into())
            .spawn(move || {
                Loop { connection, shared, receiver, busy_timeout, turn: Instant::now() }.run();
                let _ = stopping.send(());
            })
            .map_err(|cause| Error::new(Kind::Unavailable, "cannot start the writer thread").caused_by(cause))?;
        Ok(Self { queue: Mutex::new(Some(sender)), stopped: Mutex::new(Some(stopped)) })
    }

    fn queue(&self) -> Result<mpsc::Sender<Order>> {
        self.queue.lock().expect("no panic while the queue is held").clone().ok_or_else(closed)
    }

    /// Runs `work` in a savepoint of a shared transaction and returns what it returned once that is durable.
    ///
    /// Cancel-safe: dropped before its turn, the work does not run; dropped later, it commits or not as a whole.
    pub(crate) async fn run<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Group<'_>) -> Result<T> + Send + 'static,
    {
        let queue = self.queue()?;
        let (reply, answer) = oneshot::channel();
        let call = Order::Call(Box::new(Pending { work: Some(work), result: None, reply }));
        queue.send(call).await.map_err(|_| closed())?;
        drop(queue);
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Runs `work` on the writer's thread while no transaction of this store is open.
    pub(crate) async fn between<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let order = Order::Between(Box::new(move || {
            let _ = reply.send(work());
        }));
        self.queue()?.send(order).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())
    }

    /// Takes no more calls and waits until the accepted ones are answered.
    pub(crate) async fn close(&self) {
        self.queue.lock().expect("no panic while the queue is held").take();
        let stopped = self.stopped.lock().expect("no panic while the end is held").take();
        if let Some(stopped) = stopped {
            let _ = stopped.await;
        }
    }
}

struct Loop {
    connection: Connection,
    shared: Arc<Shared>,
    receiver: mpsc::Receiver<Order>,
    busy_timeout: Duration,
    turn: Instant,
}

impl Loop {
    fn run(mut self) {
        while let Some(order) = self.receiver.blocking_recv() {
            match order {
                Order::Between(work) => work(),
                Order::Call(first) => {
                    let between = self.group(first);
                    if let Some(work) = between {
                        work();
                    }
                }
            }
        }
    }

    /// Runs one shared transaction, from the first call to the last answer.
    fn group(&mut self, first: Box<dyn Call>) -> Option<Box<dyn FnOnce() + Send>> {
        let mut done: Vec<Box<dyn Call>> = Vec::new();
        let mut between = None;
        let ended = match self.begin() {
            Err(error) => {
                done.push(first);
                Err(error)
            }
            Ok(()) => {
                let shared = self.shared.clone();
                let mut group = Group::new(&self.connection, &shared);
                fill(&mut group, first, &mut self.receiver, &mut done, &mut between).and_then(|()| commit(group))
            }
        };
        if ended.is_err() && !self.connection.is_autocommit() {
            // Nothing of the group is kept; an error here means that it is gone already.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        for call in done {
            call.answer(ended.as_ref().copied());
        }
        between
    }

    /// Takes the write lock: BEGIN IMMEDIATE, tried again until the bound.
    fn begin(&mut self) -> Result<()> {
        if self.receiver.is_empty() {
            self.turn = Instant::now();
        } else if self.turn.elapsed() >= TURN {
            thread::sleep(PAUSE);
            self.turn = Instant::now();
        }
        let started = Instant::now();
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
) -> Result<()> {
    let started = Instant::now();
    let mut next = Some(first);
    while let Some(mut call) = next.take() {
        if !call.is_abandoned() {
            let ran = group.savepoint(|group| call.run(group));
            done.push(call);
            ran?;
        }
        if done.len() < GROUP && started.elapsed() < GROUP_TIME {
            match receiver.try_recv() {
                Ok(Order::Call(call)) => next = Some(call),
                // ORDER: what wants no transaction open ends this group and runs right after it.
                Ok(Order::Between(work)) => *between = Some(work),
                Err(_) => {}
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

/// Whether SQLite still has the transaction in which `error` arose.
pub(crate) fn survived(connection: &Connection, error: &Error) -> Result<()> {
    if connection.is_autocommit() { Err(rolled_back(error)) } else { Ok(()) }
}

/// Interrupts statements that run past a bound.
#[derive(Debug, Default)]
pub(crate) struct Bound {
    ends: Mutex<Option<Instant>>,
    armed: AtomicBool,
}

impl Bound {
    /// How many virtual machine instructions pass between two looks at the time.
    const STEPS: i32 = 10_000;

    /// Makes `connection` obey this bound.
    pub(crate) fn install(self: &Arc<Self>, connection: &mut Connection) -> Result<()> {
        let bound = self.clone();
        let over = move || {
            bound.armed.load(Ordering::Relaxed)
                && bound
                    .ends
                    .lock()
                    .expect("no panic while the bound is held")
                    .is_some_and(|ends| Instant::now() > ends)
        };
        connection.progress_handler(Self::STEPS, Some(over)).map_err(driver_error)
    }

    /// Runs `work` under the bound.
    pub(crate) fn within<T>(&self, bound: Duration, work: impl FnOnce() -> T) -> T {
        struct Disarm<'a>(&'a Bound);
        impl Drop for Disarm<'_> {
            fn drop(&mut self) {
                self.0.armed.store(false, Ordering::Relaxed);
            }
        }
        *self.ends.lock().expect("no panic while the bound is held") = Some(Instant::now() + bound);
        self.armed.store(true, Ordering::Relaxed);
        let _disarm = Disarm(self);
        work()
    }
}
