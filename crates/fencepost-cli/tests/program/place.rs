//! A folder of its own for each test, and the program run in it.

use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use fencepost::{Result, Store};
use serde_json::Value;

/// A folder with the program's default store in it, if one was made.
pub struct Place {
    folder: tempfile::TempDir,
}

/// How one run ended.
#[derive(Debug)]
pub struct Answer {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Place {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder can be made") }
    }

    /// A place whose store has a queue of that name.
    pub fn with_queue(queue: &str) -> Self {
        let place = Self::new();
        assert_eq!(place.run(&["queue", "create", queue]).status, 0);
        place
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    pub fn write(&self, file: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(file), content).expect("a file can be written");
    }

    /// The program with these arguments, not yet started. Nothing of the environment of the tests reaches it.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
        command.args(args).current_dir(self.folder.path()).env_clear().stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Answer {
        self.command(args).output().expect("the program starts").into()
    }

    pub fn run_with_input(&self, args: &[&str], input: &[u8]) -> Answer {
        let mut command = self.command(args);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        // It may end before it has read everything; then its answer says why.
        let _ = child.stdin.take().expect("standard input is piped").write_all(input);
        child.wait_with_output().expect("the program ends").into()
    }

    /// How many messages the queue holds, as the program says.
    pub fn stored(&self, queue: &str) -> u64 {
        let answer = self.run(&["queue", "list", "--json"]).json();
        let queues = answer["queues"].as_array().expect("a list of queues");
        queues.iter().find(|found| found["queue"] == queue).expect("the queue is listed")["stored"].as_u64().unwrap()
    }

    /// Everything that the store holds, as the program says it, but for the time.
    pub fn everything(&self) -> Value {
        let mut everything = self.run(&["status", "--json"]).json();
        everything["now"] = Value::Null;
        everything
    }

    /// Works with the store as another program would.
    pub fn with_store<T>(&self, work: impl AsyncFnOnce(&Store) -> Result<T>) -> T {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let url = format!("sqlite:{}", self.path("fencepost.db").display());
        runtime.block_on(async {
            let store = fencepost::open(url).create(true).await.unwrap();
            let answer = work(&store).await.unwrap();
            store.close().await;
            answer
        })
    }
}

impl Answer {
    /// The one JSON object on standard output.
    pub fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "{self}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("standard output is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("standard error is UTF-8"),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "exit {}", self.status)?;
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                writeln!(f, "--- {name}\n{}", text.trim_end())?;
            }
        }
        Ok(())
    }
}
