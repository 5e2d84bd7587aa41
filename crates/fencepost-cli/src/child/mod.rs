//! A command that runs for as long as something is ours: tied to this process, told of signals, and ended in time with all that
//! it started. Whose it is, and what it finds in its environment, is the caller's.
//!
//! `tie` ends the command with this process, `guard` what the command has started.

pub mod guard;
pub mod tie;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use fencepost::{Error, Kind, Result};
use rustix::process::{Pid, Signal, getpgrp, kill_process, kill_process_group, test_kill_process_group};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

/// How often it is looked whether processes are left of a group whose leader has ended.
const LOOK: Duration = Duration::from_millis(5);

/// Which processes a command is told of signals with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Ours: it shares our terminal.
    Ours,
    /// Its own, which it leads.
    Own,
}

impl Group {
    /// The group of a command that may read from our terminal: one that leads a group of its own could not.
    pub fn at_terminal() -> Self {
        let terminal = std::fs::File::open("/dev/tty");
        let foreground =
            terminal.is_ok_and(|terminal| rustix::termios::tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp()));
        if foreground { Group::Ours } else { Group::Own }
    }
}

/// The standard streams of a command, as far as they were piped.
pub type Streams = (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>);

/// A running command.
#[derive(Debug)]
pub struct Child {
    process: tokio::process::Child,
    pid: Pid,
    group: Group,
    /// Until it is dropped; only a group of its own can be killed as a whole.
    watched: Option<guard::Watched>,
}

impl Child {
    /// Starts it, once `prepare` has set its environment and its standard streams, which are inherited otherwise.
    ///
    /// # Errors
    /// `unavailable` when the system starts no process. That the command itself cannot be run is told by the status 126 or 127.
    pub fn start(command: &[OsString], group: Group, prepare: impl FnOnce(&mut Command)) -> Result<Self> {
        let refuse = |cause| Error::new(Kind::Unavailable, "cannot start a process").caused_by(cause);
        let guard = if group == Group::Own { Some(guard::call().map_err(refuse)?) } else { None };
        let mut starter = Command::new(tie::program().map_err(refuse)?);
        starter.args(tie::arguments(command, guard));
        prepare(&mut starter);
        if group == Group::Own {
            starter.process_group(0);
        }
        // The command is killed with the thread that starts it: one of the runtime's, which are the last to end.
        let process = starter.kill_on_drop(true).spawn().map_err(refuse)?;
        let pid = process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let pid =
            pid.ok_or_else(|| Error::new(Kind::Internal, "cannot tell the number of a process that was started"))?;
        let mut child = Self { process, pid, group, watched: None };
        if group == Group::Own {
            // RACE: the command may run, and fork, before this; on Linux it has made itself known.
            child.watched = Some(guard::watch(pid).map_err(refuse)?);
        }
        Ok(child)
    }

    /// Its standard streams; they are handed out once.
    pub fn streams(&mut self) -> Streams {
        (self.process.stdin.take(), self.process.stdout.take(), self.process.stderr.take())
    }

    /// Waits until it has ended. Cancel-safe.
    pub async fn wait(&mut self) -> Result<ExitStatus> {
        let ended = self.process.wait().await;
        ended.map_err(|cause| Error::new(Kind::Unavailable, "cannot wait for the command").caused_by(cause))
    }

    /// Passes on a signal that we got.
    pub fn pass_on(&self, signal: Signal) {
        // A terminal's Ctrl-C reaches all of its foreground group; the command is not to get it twice.
        if self.group == Group::Own || signal != Signal::INT {
            self.signal(signal);
        }
    }

    /// Ends it: told at once, killed after `grace`, and joined.
    pub async fn end_within(&mut self, grace: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM);
        // One that is stopped hears of it only when it goes on.
        self.signal(Signal::CONT);
        let ended = async {
            let status = self.wait().await;
            while self.group_lives() {
                tokio::time::sleep(LOOK).await;
            }
            status
        };
        if let Ok(status) = tokio::time::timeout(grace, ended).await {
            return status;
        }
        self.signal(Signal::KILL);
        self.wait().await
    }

    fn group_lives(&self) -> bool {
        self.group == Group::Own && test_kill_process_group(self.pid).is_ok()
    }

    /// What has ended hears nothing.
    fn signal(&self, signal: Signal) {
        let _ = if self.group == Group::Own {
            kill_process_group(self.pid, signal)
        } else if self.process.id().is_some() {
            kill_process(self.pid, signal)
        } else {
            Ok(())
        };
    }
}

impl Drop for Child {
    /// What was not waited for has lost its owner: nothing of it goes on.
    fn drop(&mut self) {
        if self.process.id().is_some() {
            self.signal(Signal::KILL);
        }
    }
}

/// What a shell would say that it exited with.
pub fn exit_number(status: ExitStatus) -> u8 {
    match (status.code(), status.signal().and_then(Signal::from_named_raw)) {
        (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        (None, Some(signal)) => exit_number_of(signal),
        (None, None) => u8::MAX,
    }
}

/// What a process exits with that a signal ended, as shells count.
pub fn exit_number_of(signal: Signal) -> u8 {
    u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX)
}

/// How it ended, for people.
pub fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_those_that_a_shell_has() {
        for (raw, number, words) in [
            (0, 0, "ended with status 0"),
            (7 << 8, 7, "ended with status 7"),
            (255 << 8, 255, "ended with status 255"),
            (9, 137, "was ended by signal 9"),
            (15, 143, "was ended by signal 15"),
        ] {
            let status = ExitStatus::from_raw(raw);
            assert_eq!((exit_number(status), in_words(status).as_str()), (number, words));
        }
    }
}
