//! The running command: started with the lease in its environment, told of signals, and ended in time.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use fencepost::{BootInstant, Error, Kind, LeaseToken, Result};
use rustix::process::{Pid, Signal, getpgrp, kill_process, kill_process_group, test_kill_process_group};
use tokio::process::Command;

use super::signals;
use super::tie;

/// How often it is looked whether processes are left of a group whose leader has ended.
const LOOK: Duration = Duration::from_millis(5);

/// A running command.
#[derive(Debug)]
pub struct Child {
    process: tokio::process::Child,
    pid: Pid,
    /// Whether it shares our terminal, and so our process group; else it leads one of its own.
    at_terminal: bool,
}

impl Child {
    /// Starts it. It inherits the standard streams.
    ///
    /// # Errors
    /// `unavailable` when the system starts no process. That the command itself cannot be run is told by the status 126 or 127.
    pub fn start(command: &[OsString], token: &LeaseToken, deadline: BootInstant) -> Result<Self> {
        let refuse = |cause| Error::new(Kind::Unavailable, "cannot start a process").caused_by(cause);
        let at_terminal = at_terminal();
        let mut starter = Command::new(tie::program().map_err(refuse)?);
        starter
            .args(tie::arguments(command))
            .env("FENCEPOST_LEASE", token.name.as_str())
            .env("FENCEPOST_EPOCH", token.epoch.to_string())
            .env("FENCEPOST_DEADLINE", deadline.since_boot().as_millis().to_string());
        if !at_terminal {
            starter.process_group(0);
        }
        // The command is killed with the thread that starts it: the main one, which is the last to end.
        let process = starter.kill_on_drop(true).spawn().map_err(refuse)?;
        let pid = process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let pid =
            pid.ok_or_else(|| Error::new(Kind::Internal, "cannot tell the number of a process that was started"))?;
        Ok(Self { process, pid, at_terminal })
    }

    /// Waits until it has ended. Cancel-safe.
    pub async fn wait(&mut self) -> Result<ExitStatus> {
        let ended = self.process.wait().await;
        ended.map_err(|cause| Error::new(Kind::Unavailable, "cannot wait for the command").caused_by(cause))
    }

    /// Passes on a signal that we got.
    pub fn pass_on(&self, signal: Signal) {
        // A terminal's Ctrl-C reaches all of its foreground group; the command is not to get it twice.
        if !(self.at_terminal && signal == Signal::INT) {
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
        !self.at_terminal && test_kill_process_group(self.pid).is_ok()
    }

    /// What has ended hears nothing.
    fn signal(&self, signal: Signal) {
        let _ = if !self.at_terminal {
            kill_process_group(self.pid, signal)
        } else if self.process.id().is_some() {
            kill_process(self.pid, signal)
        } else {
            Ok(())
        };
    }
}

/// Whether we are in the foreground of a terminal. A command that leads a group of its own could not read from it.
fn at_terminal() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    terminal.is_ok_and(|terminal| rustix::termios::tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp()))
}

/// What a shell would say that it exited with.
pub fn exit_number(status: ExitStatus) -> u8 {
    match (status.code(), status.signal().and_then(Signal::from_named_raw)) {
        (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        (None, Some(signal)) => signals::exit_number(signal),
        (None, None) => u8::MAX,
    }
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
