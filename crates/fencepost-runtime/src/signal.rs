//! Stopping on the signals by which service managers and terminals ask for it.

use std::io;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How soon after the first a second signal is taken for the same: some programs signal a process and its group, one after the other.
const SAME: Duration = Duration::from_secs(1);

/// A token that fires at the first SIGTERM or SIGINT. A second signal, a second or more after it, ends the process at once with status
/// 130, for people who do not want to wait for the drain.
///
/// # Errors
/// When the handlers cannot be installed.
///
/// # Panics
/// Outside an async runtime with its I/O driver enabled.
pub fn stop_on_signals() -> io::Result<CancellationToken> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = CancellationToken::new();
    let fired = stop.clone();
    tokio::spawn(async move {
        let mut signalled = async || {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        signalled().await;
        fired.cancel();
        let first = Instant::now();
        while first.elapsed() < SAME {
            signalled().await;
        }
        std::process::exit(130);
    });
    Ok(stop)
}
