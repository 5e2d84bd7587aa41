//! Child processes that play a part: the test program itself, started again for the same test, in which it plays instead of testing.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

use crate::place::PATIENCE;

const FILE: &str = "FENCEPOST_PUPPET_FILE";

/// What a part says is on lines that begin so; the others are the test harness's.
const SAID: &str = "@ ";

/// In a process that was started to play, plays `part` and ends the process. The first line of a test that has puppets.
pub fn play(part: fn(&Path)) {
    if let Some(file) = std::env::var_os(FILE) {
        set_parent_process_death_signal(Some(Signal::KILL)).expect("a puppet dies with whoever plays with it");
        part(Path::new(&file));
        std::process::exit(0);
    }
}

/// Says a line to the test.
pub fn say(line: impl AsRef<str>) {
    // Written past the capture of the test harness, whole, as several threads may speak.
    let line = format!("\n{SAID}{}\n", line.as_ref());
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// Waits until the test tells it to go on. Ends with the test.
pub fn await_word() {
    let mut line = String::new();
    if std::io::stdin().read_line(&mut line).unwrap_or(0) == 0 {
        std::process::exit(1);
    }
}

/// A child process that plays a part of the test named.
pub struct Puppet {
    child: Child,
    words: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Puppet {
    /// Starts the part that `test` plays, on `file`.
    pub fn start<F>(test: F, file: &Path) -> Self {
        let (_, name) = std::any::type_name_of_val(&test).split_once("::").expect("a test is in a module");
        let mut child = Command::new(std::env::current_exe().expect("the test program is a file"))
            .args([name, "--exact", "--nocapture", "--test-threads=1"])
            .env(FILE, file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a puppet starts");
        let out = BufReader::new(child.stdout.take().expect("its output is piped"));
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if let Some(said) = line.strip_prefix(SAID)
                    && sender.send(said.to_owned()).is_err()
                {
                    return;
                }
            }
        });
        Self { words: child.stdin.take(), child, lines }
    }

    /// The next line it says.
    pub fn hear(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("the puppet says something")
    }

    /// What it has said and was not heard yet.
    pub fn heard_so_far(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    /// Tells it to go on.
    pub fn tell(&mut self) {
        self.words.as_mut().expect("it listens").write_all(b"go\n").expect("it listens");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Stops it, and returns when every thread of it stands still.
    pub fn freeze(&self) {
        kill_process(self.pid(), Signal::STOP).expect("it can be stopped");
        let since = Instant::now();
        while !self.is_frozen() {
            assert!(since.elapsed() < PATIENCE, "it stops");
            thread::yield_now();
        }
    }

    fn is_frozen(&self) -> bool {
        let tasks: PathBuf = format!("/proc/{}/task", self.child.id()).into();
        let tasks = std::fs::read_dir(tasks).expect("it runs");
        tasks.map_while(Result::ok).all(|task| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            // The state follows the name, which is in parentheses. A thread that has just ended has none.
            stat.is_empty() || stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 'Z', 'X']))
        })
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        kill_process(self.pid(), Signal::CONT).expect("it can be continued");
    }

    /// Kills it with SIGKILL; it is gone when this returns.
    pub fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }

    /// Waits until it ends by itself, having played its part to the end.
    pub fn end(mut self) {
        self.words.take();
        let ended = self.child.wait().expect("it ends");
        assert!(ended.success(), "its part ends well: {ended}");
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
