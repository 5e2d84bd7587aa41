//! The signals that ask a process to end, heard instead of obeyed.

use fencepost::{Error, Kind, Result};
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

/// Hears SIGTERM, SIGINT and SIGHUP, but for those that whoever started us had us ignore, as `nohup` does.
#[derive(Debug)]
pub struct Signals {
    terminate: Option<unix::Signal>,
    interrupt: Option<unix::Signal>,
    hang_up: Option<unix::Signal>,
}

impl Signals {
    /// From now on the signals are heard.
    ///
    /// # Errors
    /// `unavailable` when the system refuses.
    pub fn listen() -> Result<Self> {
        let ignored = ignored();
        let listen = |signal: Signal| {
            if ignored >> (signal.as_raw() - 1) & 1 == 1 {
                return Ok(None);
            }
            unix::signal(SignalKind::from_raw(signal.as_raw()))
                .map(Some)
                .map_err(|cause| Error::new(Kind::Unavailable, "cannot listen for signals").caused_by(cause))
        };
        Ok(Self { terminate: listen(Signal::TERM)?, interrupt: listen(Signal::INT)?, hang_up: listen(Signal::HUP)? })
    }

    /// The next one. Cancel-safe.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            () = received(&mut self.terminate) => Signal::TERM,
            () = received(&mut self.interrupt) => Signal::INT,
            () = received(&mut self.hang_up) => Signal::HUP,
        }
    }
}

async fn received(signal: &mut Option<unix::Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// The signals that are ignored, a bit each, where the system tells.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
