//! The shared server is one as a run asks for it: a test of this program is run once more in each way.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use fencepost_test_support::{PgServer, skip_or_fail};

/// Set for those who share.
const SHARES: &str = "FENCEPOST_TEST_SHARES";

/// Begins the lines in which they say what their server is set to.
const SAYS: &str = "fsync is ";

struct Sharer {
    process: Child,
    asks: ChildStdin,
    said: Box<dyn Iterator<Item = String>>,
}

impl Sharer {
    fn start(fsync: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "sharing::runs_with_other_settings_do_not_share", "--nocapture"]);
        command.env(SHARES, "1").env("FENCEPOST_PG_FSYNC", fsync).env("FENCEPOST_PG_IDLE", "1");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let said = Box::new(lines.filter_map(|line| line.strip_prefix(SAYS).map(str::to_owned)));
        Self { asks: process.stdin.take().unwrap(), process, said }
    }

    /// What its server is set to, asked now.
    fn fsync(&mut self) -> String {
        writeln!(self.asks).unwrap();
        self.said.next().unwrap()
    }

    fn end(self) {
        let Self { mut process, asks, .. } = self;
        drop(asks);
        assert!(process.wait().unwrap().success());
    }
}

#[tokio::test]
#[allow(clippy::print_stdout, reason = "who shares talks to the test that started it")]
async fn runs_with_other_settings_do_not_share() {
    let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
    if std::env::var_os(SHARES).is_some() {
        let client = server.connect("postgres").await.unwrap();
        for _ in std::io::stdin().lines() {
            let fsync: String = client.query_one("SELECT current_setting('fsync')", &[]).await.unwrap().get(0);
            println!("\n{SAYS}{fsync}");
        }
        return;
    }
    let mut off = Sharer::start("off");
    assert_eq!(off.fsync(), "off");
    let mut on = Sharer::start("on");
    assert_eq!(on.fsync(), "on");
    // Nobody's server was ended for it.
    assert_eq!(off.fsync(), "off");
    on.end();
    assert_eq!(off.fsync(), "off");
    off.end();
}
