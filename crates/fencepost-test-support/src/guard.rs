//! The guard of a server: a process that ends the server and removes its folder once nobody needs it, however those who did ended.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::Unavailable;
use crate::error::Result;

const SCRIPT: &str = include_str!("guard.sh");

/// Ends what runs in a folder, and removes the folder, when it is dropped or this process is gone.
#[derive(Debug)]
pub struct Guard {
    process: Child,
    /// Its end is how the guard learns that it is time.
    tie: Option<ChildStdin>,
}

impl Guard {
    /// Ties what runs in `folder` to this process.
    pub fn tied(folder: &Path) -> Result<Self> {
        let mut process = start(command("tied", folder).stdin(Stdio::piped()))?;
        let tie = process.stdin.take();
        Ok(Self { process, tie })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.tie.take());
        // Nothing of it is left when this returns.
        let _ = self.process.wait();
    }
}

/// Sets a guard that lives on: it ends what runs in `folder` after `idle_seconds` without a user, as the locks in `locks` tell.
pub fn detach(folder: &Path, locks: &Path, idle_seconds: u32) -> Result {
    let mut command = command("shared", folder);
    command.env("LOCKS", locks).env("IDLE", idle_seconds.to_string()).stdin(Stdio::null());
    start(&mut command).map(drop)
}

/// Sees to what is left in `folder` of a process that is gone, if its guard is gone as well.
pub fn sweep(folder: &Path) -> Result {
    let swept = start(command("left", folder).stdin(Stdio::null()))?.wait();
    swept.map(drop).map_err(|error| Unavailable::failed("cannot wait for the guard of a server", error))
}

/// Whether a guard stands over `folder`.
pub fn stands(folder: &Path) -> bool {
    // The lock that it holds as long as it lives.
    let file = File::options().append(true).open(folder.join("guard"));
    file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

fn command(mode: &str, folder: &Path) -> Command {
    // A session of its own, and nobody's streams: what ends the test and all that belongs to it leaves the guard to its work.
    let mut command = Command::new("setsid");
    // Neither the script nor the folder is an argument: a command line with the folder is how the guard knows whom to end.
    command.args(["sh", "-c", "eval \"$SCRIPT\"", "fencepost-guard", mode]).env("SCRIPT", SCRIPT).env("FOLDER", folder);
    command
}

fn start(command: &mut Command) -> Result<Child> {
    let started = command.current_dir("/").stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    started.map_err(|error| Unavailable::failed("cannot start the guard of a server", error))
}
