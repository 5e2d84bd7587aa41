//! The demo's worker processes: started, spoken to, stopped, continued, killed, and joined.

use std::process::Stdio;
use std::time::Duration;

use fencepost::{Error, Kind, Result};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;

use super::words::{Order, Word};

/// How long a worker gets to end by itself.
const GRACE: Duration = Duration::from_secs(5);

/// A worker process.
#[derive(Debug)]
pub struct Process {
    /// Its label.
    pub name: String,
    child: Child,
    orders: Option<ChildStdin>,
}

/// What a worker said, or that it said its last word.
#[derive(Debug)]
pub struct Said {
    /// Which worker, counted from 0.
    pub worker: usize,
    /// Its word; nothing when its pipe is closed, as when it has ended.
    pub word: Option<Word>,
}

/// Starts a worker process on the store at `url`; what it says goes to `said`.
pub fn start(
    worker: usize,
    name: String,
    url: &str,
    arguments: &[String],
    said: mpsc::Sender<Said>,
) -> Result<Process> {
    let program = std::env::current_exe()
        .map_err(|cause| Error::new(Kind::Unavailable, "cannot find the program itself").caused_by(cause))?;
    let mut child = Command::new(program)
        .args(arguments)
        // SECURITY: not an argument, which everybody on the host can see: it may hold a password.
        .env("FENCEPOST_STORE", url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|cause| Error::new(Kind::Unavailable, "cannot start a worker process").caused_by(cause))?;
    let orders = child.stdin.take();
    if let Some(words) = child.stdout.take() {
        tokio::spawn(async move {
            let mut lines = BufReader::new(words).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let word = serde_json::from_str(&line).unwrap_or(Word::Trouble { message: line, code: None });
                if said.send(Said { worker, word: Some(word) }).await.is_err() {
                    return;
                }
            }
            let _ = said.send(Said { worker, word: None }).await;
        });
    }
    Ok(Process { name, child, orders })
}

impl Process {
    /// Tells the worker something. One that has ended does not listen.
    pub async fn tell(&mut self, order: Order) {
        if let Some(orders) = &mut self.orders {
            let _ = orders.write_all(order.to_line().as_bytes()).await;
            let _ = orders.flush().await;
        }
    }

    fn pid(&self) -> Option<Pid> {
        self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
    }

    /// Kills it with SIGKILL and waits until it is gone.
    ///
    /// # Errors
    /// `unavailable` when the system refuses.
    pub async fn kill(&mut self) -> Result<()> {
        self.child.kill().await.map_err(|cause| refused(&self.name, "kill", cause))
    }

    /// Whether the system shows it as stopped: state `T`.
    pub fn is_stopped(&self) -> bool {
        let Some(pid) = self.pid() else { return false };
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        // The state follows the name of the program, which is in parentheses and may hold anything.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    }

    /// Continues it with SIGCONT.
    ///
    /// # Errors
    /// `unavailable` when the system refuses.
    pub fn proceed(&self) -> Result<()> {
        let Some(pid) = self.pid() else { return Ok(()) };
        kill_process(pid, Signal::CONT).map_err(|cause| refused(&self.name, "continue", cause))
    }

    /// Lets it end: closes its pipe, and kills it when it does not end by itself in time.
    pub async fn end(mut self) {
        self.orders.take();
        let _ = self.proceed();
        if tokio::time::timeout(GRACE, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

fn refused(name: &str, what: &str, cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(Kind::Unavailable, format!("cannot {what} the process of `{name}`")).caused_by(cause)
}
