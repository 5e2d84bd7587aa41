//! Stopping on signals. A program of its own: a signal is for a whole process.

use std::process::Command;

use fencepost_runtime::stop_on_signals;
use tokio::signal::unix::{SignalKind, signal};

/// A second one would end this process.
#[tokio::test]
async fn the_first_signal_is_the_first_also_after_the_program_stopped_by_itself() {
    let mut heard = signal(SignalKind::terminate()).unwrap();
    let stop = stop_on_signals().unwrap();
    stop.cancel();
    let sent = Command::new("sh").args(["-c", &format!("kill -TERM {}", std::process::id())]).status().unwrap();
    assert!(sent.success());
    heard.recv().await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
