//! All files of a folder, or of a program that carries them, in the order of their numbers.

use std::collections::BTreeMap;
use std::path::Path;

use fencepost_core::{Error, Kind, Result};

use crate::diagnostic::{Diagnostic, Problems};
use crate::file::{Direction, FileName, Migration};
use crate::sql::Dialect;

/// Numbers with fewer digits count, so one that is missing is a file that was forgotten; longer ones are dates.
const COUNTED: u64 = 10_000_000;

/// Migrations that were read and found to be right, in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrations {
    up: Vec<Migration>,
    down: BTreeMap<u64, Migration>,
}

impl Migrations {
    /// Reads every file of `folder` whose name ends with `.sql`. Folders in it are not looked into.
    ///
    /// # Errors
    /// `not_found` when there is no such folder; `unavailable` when it or a file cannot be read; `migration_invalid`, of kind
    /// `invalid_input`, when something in it cannot be right: its source is [`Problems`], with every one of them.
    pub fn read(folder: &Path, dialect: Dialect) -> Result<Self> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|error| unreadable(folder, error))? {
            let path = entry.map_err(|error| unreadable(folder, error))?.path();
            let base = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if FileName::is_sql(&base) && !path.is_dir() {
                let bytes = std::fs::read(&path).map_err(|error| unreadable(&path, error))?;
                files.push((path.display().to_string(), bytes));
            }
        }
        Self::of(files, dialect)
    }

    /// Those that a program carries: the name of each, or its path, and what is in it.
    ///
    /// # Errors
    /// `migration_invalid` as [`Migrations::read`].
    pub fn of(
        files: impl IntoIterator<Item = (impl Into<String>, impl AsRef<[u8]>)>,
        dialect: Dialect,
    ) -> Result<Self> {
        let mut files: Vec<_> = files.into_iter().map(|(file, bytes)| (file.into(), bytes)).collect();
        files.sort_by(|one, other| one.0.cmp(&other.0));
        let (mut up, mut down, mut problems) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for (file, bytes) in files {
            let base = file.rsplit(['/', '\\']).next().unwrap_or(&file);
            let name = match FileName::read(&file, base) {
                Ok(name) => name,
                Err(problem) => {
                    problems.push(*problem);
                    continue;
                }
            };
            let (number, direction) = (name.number, name.direction);
            let of_this = if direction == Direction::Up { &mut up } else { &mut down };
            if let Some(other) = of_this.get(&number) {
                problems.push(twice(&file, number, other));
                continue;
            }
            // Also when it is wrong, so that it is no gap.
            let read = Migration::read(name, &file, bytes.as_ref(), dialect);
            of_this.insert(number, (file, read));
        }
        problems.extend(gaps(&up));
        problems.extend(lonely(&up, &down));
        let mut right = |files: BTreeMap<u64, Read>| -> BTreeMap<u64, Migration> {
            files
                .into_iter()
                .filter_map(|(number, (_, read))| match read {
                    Ok(migration) => Some((number, migration)),
                    Err(of_file) => {
                        problems.extend(of_file);
                        None
                    }
                })
                .collect()
        };
        let (up, down) = (right(up).into_values().collect(), right(down));
        match Problems::new(problems) {
            None => Ok(Self { up, down }),
            Some(problems) => {
                Err(problems.refuse(Kind::InvalidInput, "cannot use the migrations").coded("migration_invalid"))
            }
        }
    }

    /// What the next file of `folder` is called, without its end: `0004_orders`. The others are not read.
    ///
    /// # Errors
    /// `invalid_input` when the name cannot be one of a file; otherwise as [`Migrations::read`].
    pub fn next_name(folder: &Path, name: &str) -> Result<String> {
        let mut latest = 0;
        for entry in std::fs::read_dir(folder).map_err(|error| unreadable(folder, error))? {
            let base = entry.map_err(|error| unreadable(folder, error))?.file_name();
            let base = base.to_string_lossy();
            if let Ok(other) = FileName::read(&base, &base) {
                latest = latest.max(other.number);
            }
        }
        let stem = format!("{:04}_{name}", latest + 1);
        let base = format!("{stem}.sql");
        match FileName::read(&base, &base) {
            Ok(read) if read.name == name && !name.contains(['/', '\\']) => Ok(stem),
            _ => Err(Error::invalid(
                format!("cannot begin a migration called `{}`", name.escape_debug()),
                "a name has no slash, is not blank and does not end with `.up` or `.down`",
            )
            .with("argument", "name")),
        }
    }

    /// The files that lead up.
    pub fn up(&self) -> &[Migration] {
        &self.up
    }

    /// The file that leads up to a number.
    pub fn up_of(&self, number: u64) -> Option<&Migration> {
        self.up.binary_search_by_key(&number, |migration| migration.number).ok().map(|at| &self.up[at])
    }

    /// The file that leads back from a number.
    pub fn down(&self, number: u64) -> Option<&Migration> {
        self.down.get(&number)
    }
}

/// A file, and what came of it.
type Read = (String, Result<Migration, Vec<Diagnostic>>);

fn twice(file: &str, number: u64, other: &Read) -> Diagnostic {
    let message = format!("the number {number} is taken by `{}`", other.0);
    Diagnostic::of_file("number_taken", message, file, "give the later of the two the next number")
}

fn unreadable(path: &Path, error: std::io::Error) -> Error {
    let (kind, hint) = match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
            (Kind::NotFound, "name the folder with the migrations")
        }
        _ => (Kind::Unavailable, "the folder and its files must be readable"),
    };
    Error::new(kind, format!("cannot read the migrations in `{}`", path.display())).hinted(hint).caused_by(error)
}

/// Numbers that are missing among those that count.
fn gaps(up: &BTreeMap<u64, Read>) -> Vec<Diagnostic> {
    let counted: Vec<_> = up.iter().filter(|(number, _)| **number < COUNTED).collect();
    let gap = |pair: &[(&u64, &Read)]| {
        let (before, after) = (*pair[0].0, *pair[1].0);
        let missing = match after - before {
            1 => return None,
            2 => format!("number {} is missing", before + 1),
            _ => format!("numbers {} to {} are missing", before + 1, after - 1),
        };
        let hint =
            "numbers count up by one; a file that was removed after it was applied must come back, or be baselined";
        Some(Diagnostic::of_file("number_missing", format!("{missing} before this file"), pair[1].1.0.as_str(), hint))
    };
    counted.windows(2).filter_map(gap).collect()
}

/// Ways back from nowhere.
fn lonely(up: &BTreeMap<u64, Read>, down: &BTreeMap<u64, Read>) -> Vec<Diagnostic> {
    let lonely = |(number, (file, _)): (&u64, &Read)| {
        let message = format!("no file leads up to number {number}");
        let hint = "a way back has the number of the file whose work it undoes";
        (!up.contains_key(number)).then(|| Diagnostic::of_file("down_without_up", message, file.as_str(), hint))
    };
    down.iter().filter_map(lonely).collect()
}
