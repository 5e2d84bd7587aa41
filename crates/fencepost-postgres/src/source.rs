//! The SQL that makes up the schema: what the program carries, or for tests the files of a folder.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use fencepost_core::{Error, Kind, Result};
use fencepost_migrate::sql::Dialect;
use fencepost_migrate::{LedgerName, Migrations, Migrator};
use sha2::{Digest, Sha256};

mod carried {
    include!(concat!(env!("OUT_DIR"), "/sql.rs"));
}

/// The version of the schema that this build reads and writes.
pub(crate) const VERSION: u32 = carried::TABLES.len() as u32;

/// For tests: tells one build's SQL from another's, so that they share no database that was made in advance.
#[doc(hidden)]
pub fn carried_checksum() -> String {
    let tables = carried::TABLES.iter().map(|(_, sql)| *sql);
    let functions = carried::FUNCTIONS.iter().map(|(_, sql)| *sql);
    checksum(tables.chain(functions).chain([RIGHTS]))
}

const RIGHTS: &str = include_str!("../sql/rights.sql");

/// Everything that is installed.
pub(crate) struct Source {
    /// The numbered changes of the tables, with their ledger. Released ones are never edited.
    pub(crate) tables: Migrator,
    /// `create or replace`, in the order of their paths.
    pub(crate) functions: Vec<Cow<'static, str>>,
    /// What ends the installation: who may call what.
    pub(crate) rights: Cow<'static, str>,
}

type File = (String, Cow<'static, str>);

impl Source {
    /// What the program carries.
    pub(crate) fn carried() -> Result<Self> {
        let files = |list: &[(&'static str, &'static str)]| {
            list.iter().map(|(name, sql)| ((*name).to_owned(), Cow::Borrowed(*sql))).collect()
        };
        Self::of(files(carried::TABLES), files(carried::FUNCTIONS), RIGHTS.into())
    }

    /// The files of a folder that is laid out as the crate's own.
    pub(crate) fn folder(folder: &Path) -> Result<Self> {
        let unread = |cause| {
            Error::new(Kind::Unavailable, format!("cannot read the SQL in `{}`", folder.display())).caused_by(cause)
        };
        let files = |list: &str| -> std::io::Result<Vec<File>> {
            let root = folder.join(list);
            let mut found = Vec::new();
            collect(&root, &mut found)?;
            found.sort();
            let name = |path: &Path| path.strip_prefix(&root).unwrap_or(path).to_string_lossy().into_owned();
            found.iter().map(|path| Ok((name(path), fs::read_to_string(path)?.into()))).collect()
        };
        let rights = fs::read_to_string(folder.join("rights.sql")).map_err(unread)?;
        Self::of(files("tables").map_err(unread)?, files("functions").map_err(unread)?, rights.into())
    }

    fn of(tables: Vec<File>, functions: Vec<File>, rights: Cow<'static, str>) -> Result<Self> {
        let tables = Migrations::of(tables.into_iter().map(|(file, sql)| (file, sql.into_owned())), Dialect::Postgres)?;
        let ledger = LedgerName::new("installation")?.within("fencepost")?;
        Ok(Self {
            tables: Migrator::new(tables).ledger(ledger),
            functions: functions.into_iter().map(|(_, sql)| sql).collect(),
            rights,
        })
    }

    /// The version of the tables.
    pub(crate) fn version(&self) -> u64 {
        self.tables.migrations().up().last().map_or(0, |migration| migration.number)
    }

    /// The checksum of everything but the tables.
    pub(crate) fn functions_checksum(&self) -> String {
        checksum(self.functions.iter().chain([&self.rights]).map(|sql| &**sql))
    }
}

/// Of texts with line feeds for all line ends.
pub(crate) fn checksum<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
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
    fn what_is_carried_is_what_stands_in_the_folder() {
        let folder = Source::folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("sql")).unwrap();
        let carried = Source::carried().unwrap();
        assert_eq!(folder.functions_checksum(), carried.functions_checksum());
        assert_eq!(folder.tables.migrations(), carried.tables.migrations());
        assert_eq!(carried.version(), u64::from(VERSION));
    }
}
