//! Takes over what the ledger of another tool says. Nothing is run, and that ledger is left as it is.

#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

use fencepost_core::{Error, Kind, Result};
use sha2::{Digest, Sha384};

use crate::diagnostic::{Diagnostic, Problems};
use crate::ledger::{Entry, Record, State};
use crate::set::Migrations;

/// Whose ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// sqlx: `_sqlx_migrations`.
    Sqlx,
    /// refinery: `refinery_schema_history`.
    Refinery,
    /// golang-migrate: `schema_migrations`, which knows the last number alone.
    GolangMigrate,
}

impl Source {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Sqlx, Self::Refinery, Self::GolangMigrate];

    /// The stable name: `sqlx`, `refinery` or `golang-migrate`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sqlx => "sqlx",
            Self::Refinery => "refinery",
            Self::GolangMigrate => "golang-migrate",
        }
    }

    /// The table in which it keeps its ledger.
    pub(crate) const fn table(self) -> &'static str {
        match self {
            Self::Sqlx => "_sqlx_migrations",
            Self::Refinery => "refinery_schema_history",
            Self::GolangMigrate => "schema_migrations",
        }
    }
}

/// A row of another tool's ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Foreign {
    pub(crate) number: i64,
    pub(crate) name: Option<String>,
    /// Whether it ended well.
    pub(crate) is_clean: bool,
    /// What the file was known by: with sqlx the SHA-384 of its bytes.
    pub(crate) checksum: Option<Vec<u8>>,
}

/// What was taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The numbers, in order.
    pub numbers: Vec<u64>,
    /// Those of them whose files are not what the other tool applied, or have other names: what the database has was made by what
    /// stood there before.
    pub different: Vec<u64>,
}

/// Lays the rows of another tool beside the files.
pub(crate) fn matched<'m>(
    migrations: &'m Migrations,
    entries: &[Entry],
    source: Source,
    rows: &[Foreign],
) -> Result<(Vec<Record<'m>>, Imported)> {
    let attempted = format!("cannot import the ledger of {}", source.as_str());
    if let Some(entry) = entries.first() {
        return Err(Error::new(Kind::Conflict, format!("{attempted}: migration {} is recorded already", entry.number))
            .coded("ledger_not_empty")
            .with("number", entry.number)
            .hinted("a ledger is imported before anything is recorded in ours"));
    }
    if let Some(dirty) = rows.iter().find(|row| !row.is_clean) {
        return Err(Error::new(
            Kind::Conflict,
            format!("{attempted}: its migration {} did not end well", dirty.number),
        )
        .coded("ledger_dirty")
        .with("number", dirty.number)
        .hinted("finish or undo it with that tool first"));
    }
    let (mut records, mut different, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let found = u64::try_from(row.number).ok().and_then(|number| migrations.up_of(number));
        let Some(migration) = found else {
            problems.push(Diagnostic::of_file(
                "file_missing",
                format!("{} has applied migration {}, and no file has that number", source.as_str(), row.number),
                format!("{:04}_{}.sql", row.number, row.name.as_deref().unwrap_or("name")),
                "bring the file back, under the number that it had",
            ));
            continue;
        };
        let is_same_text =
            row.checksum.as_ref().is_none_or(|sum| sum[..] == Sha384::digest(migration.text.as_bytes())[..]);
        let is_same_name = row.name.as_ref().is_none_or(|name| alike(name, &migration.name));
        if !is_same_text || !is_same_name {
            different.push(migration.number);
        }
        records.push(Record::new(migration, State::Imported));
    }
    match Problems::new(problems) {
        Some(problems) => Err(problems.refuse(Kind::Schema, &attempted)),
        None => {
            let numbers = records.iter().map(|record| record.migration.number).collect();
            Ok((records, Imported { numbers, different }))
        }
    }
}

/// sqlx keeps a name with blanks for its underscores.
fn alike(theirs: &str, ours: &str) -> bool {
    theirs.replace('_', " ") == ours.replace('_', " ")
}

/// golang-migrate says how far it came; the files say what that was.
pub(crate) fn up_to(migrations: &Migrations, number: i64, is_dirty: bool) -> Vec<Foreign> {
    let row = |number| Foreign { number, name: None, is_clean: true, checksum: None };
    let before = migrations.up().iter().filter_map(|migration| i64::try_from(migration.number).ok());
    let mut rows: Vec<_> = before.filter(|other| *other < number).map(row).collect();
    rows.push(Foreign { is_clean: !is_dirty, ..row(number) });
    rows
}

/// The error of a database without such a ledger.
/// The error of a table of that name that is somebody else's.
pub(crate) fn foreign(source: Source) -> Error {
    let (table, tool) = (source.table(), source.as_str());
    Error::new(
        Kind::Conflict,
        format!("cannot import: the table `{table}` does not have the form that {tool} gives it"),
    )
    .coded("ledger_unknown")
    .with("table", table)
    .hinted("another tool may have made it; `fencepost migrate baseline` says what is there already")
}

pub(crate) fn absent(source: Source) -> Error {
    Error::new(
        Kind::NotFound,
        format!("cannot import the ledger of {}: there is no table `{}`", source.as_str(), source.table()),
    )
    .coded("ledger_absent")
    .hinted("name the tool that was used on this database")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Dialect;

    fn files() -> Migrations {
        Migrations::of([("1_a_b.sql", "select 1"), ("2_c.sql", "select 2")], Dialect::Postgres).unwrap()
    }

    fn row(number: i64, name: &str, text: &str) -> Foreign {
        let checksum = Some(Sha384::digest(text.as_bytes()).to_vec());
        Foreign { number, name: Some(name.into()), is_clean: true, checksum }
    }

    #[test]
    fn rows_are_matched_by_number_and_differences_are_told() {
        let files = files();
        let rows = [row(1, "a b", "select 1"), row(2, "c", "select 22")];
        let (records, imported) = matched(&files, &[], Source::Sqlx, &rows).unwrap();
        assert!(records.iter().all(|record| record.state == State::Imported && record.done == 1));
        assert_eq!((imported.numbers, imported.different), (vec![1, 2], vec![2]));
        let (_, imported) = matched(&files, &[], Source::Sqlx, &[row(1, "b", "select 1")]).unwrap();
        assert_eq!((imported.numbers, imported.different), (vec![1], vec![1]));
    }

    #[test]
    fn what_is_dirty_or_has_no_file_is_refused() {
        let files = files();
        let dirty = Foreign { is_clean: false, ..row(2, "c", "select 2") };
        assert_eq!(matched(&files, &[], Source::Sqlx, &[dirty]).unwrap_err().code(), "ledger_dirty");
        for number in [3, 0, -1] {
            let error = matched(&files, &[], Source::Refinery, &[row(number, "d", "")]).unwrap_err();
            assert_eq!((error.kind(), error.code()), (Kind::Schema, "file_missing"));
        }
    }

    #[test]
    fn the_last_number_stands_for_all_before_it() {
        let files = files();
        let numbers = |rows: Vec<Foreign>| rows.iter().map(|row| row.number).collect::<Vec<_>>();
        assert_eq!(numbers(up_to(&files, 2, false)), [1, 2]);
        assert_eq!(numbers(up_to(&files, 1, false)), [1]);
        assert!(!up_to(&files, 2, true)[1].is_clean);
    }
}
