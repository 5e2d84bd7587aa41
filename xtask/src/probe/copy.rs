//! The copy of the workspace in which guards are removed. The real tree is only read.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{Result, workspace};

/// A copy of the workspace below the build folder.
pub struct Copy {
    pub folder: PathBuf,
}

impl Copy {
    /// Brings the copy up to date. What did not change is not written, so that the copy's builds stay warm.
    pub fn new(folder: PathBuf) -> Result<Self> {
        let root = workspace::root();
        let files: BTreeSet<PathBuf> = workspace::files()?.into_iter().map(|file| folder.join(file)).collect();
        for to in &files {
            let from = root.join(to.strip_prefix(&folder).expect("every file was joined to the folder"));
            let content = fs::read(&from).map_err(|error| failed("read", &from, &error))?;
            if fs::read(to).ok().as_ref() != Some(&content) {
                write(to, &content)?;
            }
        }
        remove_others(&folder, &files)?;
        Ok(Self { folder })
    }

    /// Runs `work` while `text` in `file`, which must stand there exactly once, is `instead`.
    pub fn with<T>(&self, file: &str, text: &str, instead: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let path = self.folder.join(file);
        let original = fs::read_to_string(&path).map_err(|error| failed("read", &path, &error))?;
        let found = original.matches(text).count();
        if found != 1 {
            return Err(format!("`{text}` stands {found} times in {file}, and must stand there exactly once"));
        }
        write(&path, original.replacen(text, instead, 1).as_bytes())?;
        let done = work();
        write(&path, original.as_bytes())?;
        done
    }
}

fn write(path: &Path, content: &[u8]) -> Result {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).and_then(|()| fs::write(path, content)).map_err(|error| failed("write", path, &error))
}

fn remove_others(folder: &Path, files: &BTreeSet<PathBuf>) -> Result {
    let entries = fs::read_dir(folder).map_err(|error| failed("list", folder, &error))?;
    for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        if path.is_dir() {
            remove_others(&path, files)?;
        } else if !files.contains(&path) {
            fs::remove_file(&path).map_err(|error| failed("remove", &path, &error))?;
        }
    }
    Ok(())
}

fn failed(verb: &str, path: &Path, error: &std::io::Error) -> String {
    format!("cannot {verb} `{}`: {error}", path.display())
}
