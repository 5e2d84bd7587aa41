//! The SQL that makes up the schema: what the program carries, or for tests the files of a folder.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use fencepost_core::{Error, Kind, Result};
use sha2::{Digest, Sha256};

mod carried {
    include!(concat!(env!("OUT_DIR"), "/sql.rs"));
}

/// The version of the schema that this build reads and writes.
pub(crate) const VERSION: u32 = carried::TABLES.len() as u32;

/// For tests: tells one build's SQL from another's, so that they share no database that was made in advance.
#[doc(hidden)]
pub fn carried_checksum() -> String {
    let Source { migrations, functions, rights } = Source::carried();
    checksum(migrations.iter().map(|migration| &migration.sql).chain(&functions).chain([&rights]))
}

/// A numbered change of the tables. Released ones are never edited.
pub(crate) struct Migration {
    pub(crate) version: u32,
    pub(crate) name: String,
    pub(crate) sql: Cow<'static, str>,
}

/// Everything that is installed.
pub(crate) struct Source {
    /// In order, without gaps.
    pub(crate) migrations: Vec<Migration>,
    /// `create or replace`, in the order of their paths.
    pub(crate) functions: Vec<Cow<'static, str>>,
    /// What ends the installation: who may call what.
    pub(crate) rights: Cow<'static, str>,
}

impl Source {
    /// What the program carries.
    pub(crate) fn carried() -> Self {
        let files = |list: &[(&'static str, &'static str)]| {
            list.iter().map(|(name, sql)| ((*name).to_owned(), Cow::Borrowed(*sql))).collect()
        };
        Self::of(files(carried::TABLES), files(carried::FUNCTIONS), include_str!("../sql/rights.sql").into())
    }

    /// The files of a folder that is laid out as the crate's own.
    pub(crate) fn folder(folder: &Path) -> Result<Self> {
        let unread = |cause| {
            Error::new(Kind::Unavailable, format!("cannot read the SQL in `{}`", folder.display())).caused_by(cause)
        };
        let files = |list: &str| -> std::io::Result<Vec<(String, Cow<'static, str>)>> {
            let root = folder.join(list);
            let mut found = Vec::new();
            collect(&root, &mut found)?;
            found.sort();
            let name = |path: &Path| path.strip_prefix(&root).unwrap_or(path).to_string_lossy().into_owned();
            found.iter().map(|path| Ok((name(path), fs::read_to_string(path)?.into()))).collect()
        };
        let rights = fs::read_to_string(folder.join("rights.sql")).map_err(unread)?;
        Ok(Self::of(files("tables").map_err(unread)?, files("functions").map_err(unread)?, rights.into()))
    }

    fn of(
        tables: Vec<(String, Cow<'static, str>)>,
        functions: Vec<(String, Cow<'static, str>)>,
        rights: Cow<'static, str>,
    ) -> Self {
        let migration = |(version, (file, sql)): (u32, (String, Cow<'static, str>))| {
            let name = file.split_once('_').map_or(&*file, |(_, name)| name).trim_end_matches(".sql").to_owned();
            Migration { version, name, sql }
        };
        Self {
            migrations: (1..).zip(tables).map(migration).collect(),
            functions: functions.into_iter().map(|(_, sql)| sql).collect(),
            rights,
        }
    }

    /// The checksum of everything but the migrations.
    pub(crate) fn functions_checksum(&self) -> String {
        checksum(self.functions.iter().chain([&self.rights]))
    }
}

impl Migration {
    pub(crate) fn checksum(&self) -> String {
        checksum([&self.sql])
    }
}

fn checksum<'a>(texts: impl IntoIterator<Item = &'a Cow<'static, str>>) -> String {
    let mut digest = Sha256::new();
    for text in texts {
        digest.update(text.replace("\r\n", "\n"));
        digest.update([0]);
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|end| end == "sql") {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_numbered_without_gaps_and_named() {
        for (index, (file, _)) in carried::TABLES.iter().enumerate() {
            assert!(file.starts_with(&format!("{:04}_", index + 1)), "{file}");
        }
    }

    #[test]
    fn what_is_carried_is_what_stands_in_the_folder() {
        let folder = Source::folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("sql")).unwrap();
        let carried = Source::carried();
        assert_eq!(folder.functions_checksum(), carried.functions_checksum());
        let names = |source: &Source| source.migrations.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&folder), names(&carried));
    }
}
