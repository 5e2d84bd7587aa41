//! Another process that takes the lock of a database and is killed with it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use fencepost_migrate::MigrationLock;

/// Names the database to the other process.
const DATABASE: &str = "FENCEPOST_TEST_DATABASE";

const HELD: &str = "it is held";

/// What the other process does: takes the lock, says so, and holds it until it is killed.
#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "somebody waits for it")]
async fn puppet() {
    let Ok(database) = std::env::var(DATABASE) else { return };
    let mut lock = None;
    if database.starts_with("postgres:") {
        let taken = lock.insert(MigrationLock::at(&database, "shop").unwrap());
        taken.acquire().await.unwrap();
    }
    #[cfg(feature = "sqlite")]
    let beside = fencepost_migrate::SqliteMigrationLock::new(&database, "shop");
    #[cfg(feature = "sqlite")]
    if lock.is_none() {
        beside.as_ref().unwrap().acquire().await.unwrap();
    }
    println!("{HELD}");
    let _ = std::io::stdin().read(&mut [0]);
}

/// The process, which is killed with SIGKILL when this is dropped.
pub struct Other(Child);

impl Other {
    /// One that has the lock of the database.
    pub fn that_holds(database: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["process::puppet", "--exact", "--nocapture"]).env(DATABASE, database);
        let mut other = Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        let lines = BufReader::new(other.0.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains(HELD)), "it ended without the lock");
        other
    }

    /// Its number.
    #[cfg(feature = "sqlite")]
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
