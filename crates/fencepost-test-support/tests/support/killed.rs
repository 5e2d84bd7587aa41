//! Processes that are killed leave nothing behind: a test of this program is run once more, as the victim.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fencepost_test_support::{DEFAULT_MAJOR, PgServer, skip_or_fail};

use crate::shared_memory::{first_process, segments_of};

/// Set for the victim.
const VICTIM: &str = "FENCEPOST_TEST_VICTIM";

/// Begins the line in which it says which folder its server has.
const SAYS: &str = "the folder is ";

/// Longer than a guard takes.
const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
#[allow(clippy::print_stdout, reason = "the victim talks to the test that started it")]
async fn nothing_is_left_of_the_server_of_a_killed_process() {
    let Some(server) = skip_or_fail(PgServer::private(DEFAULT_MAJOR).await) else { return };
    if std::env::var_os(VICTIM).is_some() {
        let client = server.connect("postgres").await.unwrap();
        let folder: String = client.query_one("SELECT current_setting('data_directory')", &[]).await.unwrap().get(0);
        println!("\n{SAYS}{folder}");
        return std::future::pending().await;
    }
    drop(server);

    let mut victim = Command::new(std::env::current_exe().unwrap());
    victim.args(["--exact", "killed::nothing_is_left_of_the_server_of_a_killed_process", "--nocapture"]);
    let mut victim = victim.env(VICTIM, "1").stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines().map_while(Result::ok);
    let folder = lines.filter_map(|line| line.strip_prefix(SAYS).map(str::to_owned)).next().unwrap();
    let number = first_process(&folder);
    let process = Path::new("/proc").join(&number);
    assert!(process.join("cmdline").exists());

    victim.kill().unwrap();
    victim.wait().unwrap();
    let since = Instant::now();
    let is_there =
        || Path::new(&folder).exists() || std::fs::read(process.join("cmdline")).is_ok_and(|line| !line.is_empty());
    while is_there() {
        assert!(since.elapsed() < LONG, "{folder} or its server is there");
        std::thread::sleep(Duration::from_millis(5)); // TIME: nobody tells when a guard is done
    }
    assert_eq!(segments_of(&number), 0);
}
