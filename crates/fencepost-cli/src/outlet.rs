//! What is told while work goes on is written by a thread of its own: a reader that does not read must not stop what renews leases.
//! What does not fit the queue before it is dropped, and counted.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread;

use serde_json::json;

use crate::text;

/// How many pieces wait at most; one is a line, or what a command printed at once.
const WAITING: usize = 1_024;

/// Where a piece goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// Standard error, without colors where nobody sees them.
    People,
    /// Standard output as it is.
    Output,
    /// Standard error as it is.
    Error,
}

enum Piece {
    Text(To, Vec<u8>),
    /// Tells that all before it is written.
    Mark(Sender<()>),
}

static OUTLET: OnceLock<SyncSender<Piece>> = OnceLock::new();

/// How many lines were dropped and not told of yet.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Has something written soon, unless too much waits already. What was dropped is told of in JSON when `json`.
pub fn send(to: To, bytes: Vec<u8>, json: bool) {
    let outlet = OUTLET.get_or_init(|| start(json));
    if let Err(TrySendError::Full(Piece::Text(_, bytes)) | TrySendError::Disconnected(Piece::Text(_, bytes))) =
        outlet.try_send(Piece::Text(to, bytes))
    {
        DROPPED.fetch_add(lines(&bytes), Ordering::Relaxed);
    }
}

/// Waits until everything that was sent is written.
pub fn flush() {
    let Some(outlet) = OUTLET.get() else { return };
    let (written, wait) = channel();
    if outlet.send(Piece::Mark(written)).is_ok() {
        let _ = wait.recv();
    }
}

fn start(json: bool) -> SyncSender<Piece> {
    let (outlet, pieces) = sync_channel(WAITING);
    let writing = thread::Builder::new().name("fencepost-output".into()).spawn(move || write_all(&pieces, json));
    // Without the thread everything is dropped, as its receiver is gone.
    drop(writing);
    outlet
}

fn write_all(pieces: &Receiver<Piece>, json: bool) {
    for piece in pieces {
        match piece {
            Piece::Text(to, bytes) => write(to, &bytes),
            Piece::Mark(written) => {
                let _ = written.send(());
                continue;
            }
        }
        let dropped = DROPPED.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            write(To::Error, notice(dropped, json).as_bytes());
        }
    }
}

/// A reader that went away is no failure of what is told of.
fn write(to: To, bytes: &[u8]) {
    let _ = match to {
        To::People => anstream::stderr().lock().write_all(bytes),
        To::Error => io::stderr().write_all(bytes),
        To::Output => {
            let mut out = io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        }
    };
}

fn notice(dropped: u64, json: bool) -> String {
    if json {
        return json!({"event": "dropped", "lines": dropped}).to_string() + "\n";
    }
    format!("{} of output dropped: nobody read them in time\n", text::counted(dropped, "line"))
}

/// A piece of a line counts as one.
fn lines(bytes: &[u8]) -> u64 {
    (bytes.iter().filter(|byte| **byte == b'\n').count() as u64).max(1)
}
