//! The program as a process that goes on while a test talks to it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout, Stdio};

use rustix::process::Pid;

use crate::place::{Answer, Place};

/// The program while it runs, with its standard streams.
pub struct Running {
    pub child: Child,
    pub stdout: BufReader<ChildStdout>,
    pub stderr: BufReader<ChildStderr>,
}

impl Running {
    pub fn start(place: &Place, args: &[&str]) -> Self {
        let mut command = place.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    /// The next line on standard output.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("standard output is UTF-8");
        line.trim_end().to_owned()
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().try_into().unwrap()).unwrap()
    }

    /// Waits for the end of what ends by itself.
    pub fn ended(mut self) -> Answer {
        let status = self.child.wait().expect("it can be waited for").code().unwrap_or(-1);
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.stdout.read_to_string(&mut stdout).unwrap();
        self.stderr.read_to_string(&mut stderr).unwrap();
        Answer { status, stdout, stderr }
    }

    /// Closes standard input, and waits for the end.
    pub fn end(mut self) -> Answer {
        drop(self.child.stdin.take());
        self.ended()
    }
}

/// Waits until a process runs no more; one that nobody has waited for yet does not run.
pub fn until_gone(process: i32) {
    let runs = || {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    };
    while runs() {
        std::thread::yield_now();
    }
}
