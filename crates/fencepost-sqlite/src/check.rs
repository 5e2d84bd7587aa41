//! Looking at the file itself: whether it is whole, how large it and its log are, and what lies beside it. Changes nothing.

use std::path::{Path, PathBuf};

use fencepost_core::Result;

use crate::error::driver_error;
use crate::store::SqliteStore;

/// How many problems of a damaged file are told.
const PROBLEMS: u32 = 20;

/// The size that the write-ahead log is cut back to: one that stays larger is pinned by a reader, or by a process that is stopped.
pub const LOG_BYTES: u64 = crate::connection::LOG_BYTES.unsigned_abs();

/// How a store's file stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCheck {
    /// What SQLite finds wrong in it; nothing when it is whole.
    pub problems: Vec<String>,
    /// Its size.
    pub bytes: u64,
    /// The size of its write-ahead log.
    pub log_bytes: u64,
    /// What its file system has left for this user, where that can be told.
    pub free_bytes: Option<u64>,
    /// Files of its name that other programs left beside it, such as a rollback journal.
    pub leftovers: Vec<PathBuf>,
}

/// What a store's file takes on its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSize {
    /// Its size.
    pub bytes: u64,
    /// The size of its write-ahead log.
    pub log_bytes: u64,
    /// What its file system has left for this user, where that can be told.
    pub free_bytes: Option<u64>,
}

impl SqliteStore {
    /// What the file takes on its disk. Asks the file system alone.
    pub fn size(&self) -> FileSize {
        let path = self.path();
        FileSize { bytes: size(path), log_bytes: size(&beside(path, "-wal")), free_bytes: free(path) }
    }

    /// Reads the whole file and checks that it is whole; takes time in proportion to its size, and stops nobody from writing.
    ///
    /// # Errors
    /// `unavailable`; `corrupt` when it cannot be read at all.
    pub async fn check(&self) -> Result<FileCheck> {
        let path = self.path().to_owned();
        self.read("check", move |snapshot| {
            let problems: Vec<String> = snapshot
                .prepare(&format!("PRAGMA quick_check({PROBLEMS})"))
                .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
                .map_err(driver_error)?;
            Ok(FileCheck {
                problems: problems.into_iter().filter(|line| line != "ok").collect(),
                bytes: size(&path),
                log_bytes: size(&beside(&path, "-wal")),
                free_bytes: free(&path),
                leftovers: existing(&path, &["-journal"]),
            })
        })
        .await
    }
}

/// Files beside the place of a store that is not there, which SQLite would take for its own once it is made.
pub fn leftovers(path: &Path) -> Vec<PathBuf> {
    if path.exists() { Vec::new() } else { existing(path, &["-wal", "-shm", "-journal"]) }
}

fn existing(path: &Path, endings: &[&str]) -> Vec<PathBuf> {
    endings.iter().map(|ending| beside(path, ending)).filter(|file| file.exists()).collect()
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |found| found.len())
}

fn free(path: &Path) -> Option<u64> {
    let system = rustix::fs::statvfs(path).ok()?;
    Some(system.f_bavail.saturating_mul(system.f_frsize))
}
