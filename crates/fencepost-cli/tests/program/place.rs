//! A folder of its own for each test, and the program run in it, on the engine that the test is for.
//!
//! Most rules hold on every engine: [`on_each_engine`] makes a test on each of them.

use std::cell::RefCell;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use fencepost::{Result, Store};
use fencepost_test_support::{DEFAULT_MAJOR, PgServer, PrivateServer, TestDatabase, skip_or_fail};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

/// Makes tests of rules, each a function without arguments: one on every engine.
macro_rules! on_each_engine {
    ($($(#[$where:meta])* $rule:ident),+ $(,)?) => {
        mod on_sqlite {
            $($(#[$where])*
            #[test]
            fn $rule() {
                super::$rule();
            })+
        }

        mod on_postgres {
            $($(#[$where])*
            #[test]
            fn $rule() {
                crate::place::on_postgres(super::$rule);
            })+
        }
    };
}
pub(crate) use on_each_engine;

thread_local! {
    /// Where the places of this test have their stores; a file in each unless there is a server.
    static SERVER: RefCell<Option<PgServer>> = const { RefCell::new(None) };
}

/// Runs a rule whose places have their stores in PostgreSQL, a database each.
pub fn on_postgres(rule: fn()) {
    if let Some(server) = skip_or_fail(runtime().block_on(PgServer::shared())) {
        SERVER.set(Some(server));
        rule();
    }
}

/// The same on a server of its own, with settings of its own, for a rule that stops it or changes what others would see. It waits for its
/// disk, as one does that is in use.
pub fn on_postgres_alone(settings: &[(&str, &str)], rule: impl FnOnce(&PrivateServer)) {
    let asked = runtime().block_on(PgServer::private_with(DEFAULT_MAJOR, settings));
    if let Some(server) = skip_or_fail(asked) {
        SERVER.set(Some((*server).clone()));
        rule(&server);
    }
}

/// What runs what waits for a server.
pub fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// A folder with the program's default store in it, or in a database of its own, if one was made.
pub struct Place {
    folder: tempfile::TempDir,
    database: Option<TestDatabase>,
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
        let server = SERVER.with_borrow(Option::clone);
        let database = server.map(|server| runtime().block_on(server.database()).expect("a database can be made"));
        Self { folder: tempfile::tempdir().expect("a folder can be made"), database }
    }

    /// The database, if the store is in one.
    pub fn database(&self) -> Option<&TestDatabase> {
        self.database.as_ref()
    }

    /// The URL of the store.
    pub fn url(&self) -> String {
        match &self.database {
            Some(database) => database.url(),
            None => format!("sqlite:{}", self.path("fencepost.db").display()),
        }
    }

    /// What a command says of a store that is not there.
    pub fn says_no_store(&self) -> &'static str {
        if self.database.is_some() { "no fencepost schema is installed" } else { "there is no such store" }
    }

    /// Whether a store was made.
    pub fn has_store(&self) -> bool {
        let Some(database) = &self.database else { return self.path("fencepost.db").exists() };
        let asked = async {
            let row = database
                .connect()
                .await
                .unwrap()
                .query_one("SELECT to_regnamespace('fencepost') IS NOT NULL", &[])
                .await;
            row.unwrap().get(0)
        };
        runtime().block_on(asked)
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
        if let Some(database) = &self.database {
            command.env("FENCEPOST_STORE", database.url());
        }
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

    /// Everything that the store holds, as the program says it, but for the time and what it is kept in.
    pub fn everything(&self) -> Value {
        let mut everything = self.run(&["status", "--json"]).json();
        everything["now"] = Value::Null;
        // Of the disk and the server, others have a part.
        everything["storage"] = Value::Null;
        everything
    }

    /// Works with the store as another program would.
    pub fn with_store<T>(&self, work: impl AsyncFnOnce(&Store) -> Result<T>) -> T {
        runtime().block_on(async {
            let store = fencepost::open(self.url()).create(true).await.unwrap();
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
