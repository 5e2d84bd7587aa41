//! A few threads that read, each with a connection of its own, so that reading never waits for the writer.

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use fencepost_core::refusal::store_closed;
use fencepost_core::{Error, Kind, Result};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use crate::connection::{Purpose, connect};
use crate::error::driver_error;
use crate::options::SqliteOptions;

/// How many reads may run at once.
const THREADS: usize = 2;

/// How many reads may wait.
const WAITING: usize = 256;

type Read = Box<dyn FnOnce(&mut Connection) + Send>;

/// The sending end of the read queue.
#[derive(Debug)]
pub(crate) struct Readers {
    queue: Mutex<Option<mpsc::Sender<Read>>>,
}

impl Readers {
    /// Opens the connections and starts the threads; they end, with their connections closed, when the store is closed or dropped.
    pub(crate) fn start(path: &Path, options: &SqliteOptions) -> Result<(Self, Vec<JoinHandle<()>>)> {
        let (sender, receiver) = mpsc::channel::<Read>(WAITING);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::with_capacity(THREADS);
        for _ in 0..THREADS {
            let mut connection = connect(path, options, Purpose::Read)?;
            let receiver = receiver.clone();
            let run = move || {
                // One thread waits inside the lock, the others for the lock; whoever gets a read lets the next one wait.
                while let Some(read) = { receiver.lock().expect("no panic while waiting").blocking_recv() } {
                    // A panic in a read is that caller's: its reply is dropped, and the thread goes on.
                    let _ = std::panic::catch_unwind(AssertUnwindSafe(|| read(&mut connection)));
                }
            };
            let thread = thread::Builder::new().name("fencepost-read".into()).spawn(run);
            threads.push(
                thread
                    .map_err(|cause| Error::new(Kind::Unavailable, "cannot start a reader thread").caused_by(cause))?,
            );
        }
        Ok((Self { queue: Mutex::new(Some(sender)) }, threads))
    }

    /// Runs `read` in one snapshot of the store.
    pub(crate) async fn run<T, F>(&self, read: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> Result<T> + Send + 'static,
    {
        let queue = self.queue.lock().expect("no panic while the queue is held").clone().ok_or_else(store_closed)?;
        let (reply, answer) = oneshot::channel();
        let task: Read = Box::new(move |connection| {
            if reply.is_closed() {
                return;
            }
            let result = connection
                .transaction_with_behavior(TransactionBehavior::Deferred)
                .map_err(driver_error)
                .and_then(|snapshot| read(&snapshot));
            let _ = reply.send(result);
        });
        queue.send(task).await.map_err(|_| store_closed())?;
        // ORDER: a call that is only awaited later must not keep the threads from ending.
        drop(queue);
        answer.await.unwrap_or_else(|_| Err(Error::new(Kind::Internal, "cannot read: the reader panicked")))
    }

    /// Takes no more reads; the threads end once the accepted ones are answered.
    pub(crate) fn close(&self) {
        self.queue.lock().expect("no panic while the queue is held").take();
    }
}
