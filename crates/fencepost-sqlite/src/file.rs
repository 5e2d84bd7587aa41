//! The file itself, as it was opened: one that was deleted, moved or replaced meanwhile takes commits that nobody will ever find.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fencepost_core::{Error, Kind, Result, Retry};

/// Which file a path led to when it was opened.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl OpenedFile {
    pub(crate) fn new(path: &Path) -> Result<Self> {
        let identity = identity(path).ok_or_else(|| gone(path))?;
        // A program may change its working directory.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok(Self { path, identity })
    }

    /// Checks that the path still leads to the file. A look costs a microsecond or two.
    pub(crate) fn check(&self) -> Result<()> {
        if identity(&self.path) == Some(self.identity) { Ok(()) } else { Err(gone(&self.path)) }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

fn gone(path: &Path) -> Error {
    Error::new(
        Kind::Unavailable,
        format!(
            "cannot write to the store `{}`: the file was deleted, moved or replaced while it was open",
            path.display()
        ),
    )
    .coded("store_gone")
    .retried(Retry::Never)
    .with("path", path.display())
    .hinted("stop the programs that have it open, put the right file in its place, and start them again")
}
