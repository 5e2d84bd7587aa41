//! How often the watcher looks. Where the system tells of writes to the write-ahead log, that is a hint to look often for a while,
//! and seldom otherwise. A hint is never the truth: looks are.

use std::thread;
use std::time::{Duration, Instant};

use notices::Notices;
use rusqlite::Connection;

/// How often the file is looked at without hints: a wake-up across processes takes half of it on average.
const UNHINTED: Duration = Duration::from_millis(5);

/// How often right after somebody wrote. The hint comes before the commit is durable, and only then can it be seen.
const BUSY: Duration = Duration::from_millis(1);

/// Later on, once in this part of the time that has passed since: who has waited so long for a commit waits a little longer, and a write
/// that concerns nobody, such as a renewal of this process, costs few looks.
const PART: u32 = 8;

/// How long somebody counts as writing after a hint: longer than a commit takes to become durable.
const WHILE: Duration = Duration::from_millis(250);

/// How often while nobody writes.
const QUIET: Duration = Duration::from_millis(100);

/// After so many commits without a hint hints are not relied on any more.
const MISSES: u32 = 8;

/// When to look next.
#[derive(Debug)]
pub(crate) struct Pace {
    notices: Option<Notices>,
    hinted: Instant,
    /// Commits in a row that came without a hint.
    misses: u32,
}

impl Pace {
    /// For the file of `connection`, which is open in write-ahead mode elsewhere too, so that its log stays the same file.
    pub(crate) fn new(connection: &Connection) -> Self {
        Self { notices: Notices::of_log(connection), hinted: Instant::now(), misses: 0 }
    }

    /// Looks often for a while.
    pub(crate) fn quicken(&mut self) {
        self.hinted = Instant::now();
    }

    /// Hears that a look found a commit. Several in a row without a hint mean that none can be relied on, as on some file systems; a
    /// single one may only have taken long to become durable.
    pub(crate) fn found(&mut self) {
        self.misses = if self.hinted.elapsed() > WHILE { self.misses + 1 } else { 0 };
        if self.misses >= MISSES {
            self.notices = None;
        }
    }

    /// Waits until it is time to look.
    pub(crate) fn rest(&mut self) {
        let Some(notices) = &self.notices else { return thread::sleep(UNHINTED) };
        let passed = self.hinted.elapsed();
        let came = if passed < WHILE {
            thread::sleep(pause(passed));
            notices.come_within(Duration::ZERO)
        } else {
            notices.come_within(QUIET)
        };
        match came {
            Some(true) => self.quicken(),
            Some(false) => {}
            None => self.notices = None,
        }
    }
}

/// How long until the next look, so long after a hint.
fn pause(passed: Duration) -> Duration {
    BUSY.max(passed / PART)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod notices {
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use rusqlite::Connection;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
    use rustix::io::{Errno, read};

    /// Notices of writes to one file.
    #[derive(Debug)]
    pub(super) struct Notices(OwnedFd);

    impl Notices {
        // INVARIANT: nothing here opens the file: closing it again would drop the locks that SQLite holds on it.
        pub(super) fn of_log(connection: &Connection) -> Option<Self> {
            let queue = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
            add_watch(&queue, format!("{}-wal", connection.path()?), WatchFlags::MODIFY).ok()?;
            Some(Self(queue))
        }

        /// Whether some came within `bound`; nothing when that cannot be known any more. All that have come are one.
        pub(super) fn come_within(&self, bound: Duration) -> Option<bool> {
            let mut waiting = [PollFd::new(&self.0, PollFlags::IN)];
            match poll(&mut waiting, Some(&Timespec::try_from(bound).ok()?)) {
                Ok(0) | Err(Errno::INTR) => return Some(false),
                Ok(_) => {}
                Err(_) => return None,
            }
            let mut notices = [0; 4_096];
            match read(&self.0, &mut notices) {
                Ok(1..) | Err(Errno::AGAIN | Errno::INTR) => Some(true),
                _ => None,
            }
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod notices {
    use std::time::Duration;

    use rusqlite::Connection;

    /// No such notices here.
    #[derive(Debug)]
    pub(super) enum Notices {}

    impl Notices {
        pub(super) fn of_log(_: &Connection) -> Option<Self> {
            None
        }

        pub(super) fn come_within(&self, _: Duration) -> Option<bool> {
            match *self {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn pair(folder: &tempfile::TempDir) -> (Connection, Connection) {
        let file = folder.path().join("pace.db");
        let writing = Connection::open(&file).unwrap();
        writing.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x)").unwrap();
        (writing, Connection::open(&file).unwrap())
    }

    #[test]
    fn a_commit_of_somebody_else_gives_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        let (writing, looking) = pair(&folder);
        let pace = Pace::new(&looking);
        let notices = pace.notices.as_ref().unwrap();
        assert_eq!(notices.come_within(Duration::ZERO), Some(false));
        writing.execute("INSERT INTO t VALUES (1)", []).unwrap();
        assert_eq!(notices.come_within(Duration::from_secs(10)), Some(true));
        assert_eq!(notices.come_within(Duration::ZERO), Some(false));
    }

    #[test]
    fn a_hint_makes_few_looks_that_lag_by_an_eighth() {
        let (mut passed, mut looks) = (Duration::ZERO, 0);
        while passed < WHILE {
            assert!(pause(passed) <= BUSY.max(passed / 8), "{passed:?}");
            passed += pause(passed);
            looks += 1;
        }
        assert!(looks < 50, "{looks}");
    }

    #[test]
    fn hints_are_relied_on_until_commits_keep_coming_without() {
        let folder = tempfile::tempdir().unwrap();
        let (_writing, looking) = pair(&folder);
        let mut pace = Pace::new(&looking);
        pace.found();
        assert!(pace.notices.is_some());
        pace.hinted = Instant::now().checked_sub(WHILE * 2).unwrap();
        for miss in 1..=MISSES {
            assert!(pace.notices.is_some(), "{miss}");
            pace.found();
        }
        assert!(pace.notices.is_none());
    }
}
