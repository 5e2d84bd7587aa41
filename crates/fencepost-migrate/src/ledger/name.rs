//! Where a ledger is kept: a table and, if wanted, its schema. Names are judged here and quoted, since no name can be bound.

use fencepost_core::{Error, Result};

/// What is added to the ledger's name for the table beside it.
const HISTORY: &str = "_history";

/// The longest name that the server does not cut.
const MAX_BYTES: usize = 63;

/// The table of a ledger. Several may be in one database, one a set of migrations.
///
/// ```
/// use fencepost_migrate::LedgerName;
///
/// assert_eq!(LedgerName::default().to_string(), "fencepost_migrations");
/// assert_eq!(LedgerName::new("Shop \"2\"").unwrap().within("app").unwrap().to_string(), "app.Shop \"2\"");
/// assert!(LedgerName::new(" ").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LedgerName {
    schema: Option<String>,
    table: String,
}

impl Default for LedgerName {
    fn default() -> Self {
        Self { schema: None, table: "fencepost_migrations".into() }
    }
}

impl LedgerName {
    /// A table in the first schema of the connection's search path, or SQLite's `main`.
    ///
    /// # Errors
    /// `invalid_input` when it is empty, blank, longer than 55 bytes, holds a control character, or is one of SQLite's own.
    pub fn new(table: impl Into<String>) -> Result<Self> {
        let table = table.into();
        judge("a ledger", &table, MAX_BYTES - HISTORY.len())?;
        if table.get(..7).is_some_and(|begin| begin.eq_ignore_ascii_case("sqlite_")) {
            return Err(refused("a ledger", &table, "names that begin with `sqlite_` are SQLite's own"));
        }
        Ok(Self { schema: None, table })
    }

    /// The same table in a schema that is there already. On SQLite, in an attached database.
    ///
    /// # Errors
    /// `invalid_input` when the name is empty, blank, longer than 63 bytes or holds a control character.
    pub fn within(self, schema: impl Into<String>) -> Result<Self> {
        let schema = schema.into();
        judge("a schema", &schema, MAX_BYTES)?;
        Ok(Self { schema: Some(schema), ..self })
    }

    /// The schema that was asked for.
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// The table.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// A statement with the quoted names in it.
    pub(crate) fn fill(&self, sql: &str) -> String {
        let history = format!("{}{HISTORY}", self.table);
        sql.replace("{ledger}", &self.quoted(&self.table)).replace("{history}", &self.quoted(&history))
    }

    /// The ledger's own table, quoted.
    #[cfg(feature = "postgres")]
    pub(crate) fn path(&self) -> String {
        self.quoted(&self.table)
    }

    fn quoted(&self, table: &str) -> String {
        match &self.schema {
            Some(schema) => format!("{}.{}", quote(schema), quote(table)),
            None => quote(table),
        }
    }
}

impl std::fmt::Display for LedgerName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.schema {
            Some(schema) => write!(f, "{schema}.{}", self.table),
            None => f.write_str(&self.table),
        }
    }
}

fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn judge(what: &'static str, name: &str, most: usize) -> Result<()> {
    match name {
        "" => Err(refused(what, name, "it is empty")),
        _ if name.len() > most => Err(refused(what, name, &format!("it has {} bytes and may have {most}", name.len()))),
        _ if name.trim().is_empty() => Err(refused(what, name, "it is blank")),
        _ if name.chars().any(char::is_control) => Err(refused(what, name, "it holds a control character")),
        // Braces would be taken for a place in a statement.
        _ if name.contains(['{', '}']) => Err(refused(what, name, "it holds a brace")),
        _ => Ok(()),
    }
}

fn refused(what: &'static str, name: &str, why: &str) -> Error {
    let allowed = "allowed are 1 to 55 bytes of UTF-8 for a ledger and 63 for a schema, not blank, without control \
        characters and braces";
    Error::invalid(format!("cannot use `{}` as {what}: {why}", name.escape_debug()), allowed).with("argument", what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_before_they_are_used() {
        let long = "x".repeat(56);
        for bad in ["", "  ", "a\0b", "a\nb", long.as_str(), "sqlite_a", "{ledger}"] {
            assert_eq!(LedgerName::new(bad).unwrap_err().code(), "invalid_input", "{bad:?}");
        }
        assert!(LedgerName::new(&long[..55]).unwrap().within("x".repeat(64)).is_err());
    }

    #[test]
    fn names_are_quoted_where_they_stand() {
        let name = LedgerName::new("a\"; drop table b; --").unwrap().within("S").unwrap();
        assert_eq!(
            name.fill("select 1 from {ledger}, {history}"),
            "select 1 from \"S\".\"a\"\"; drop table b; --\", \"S\".\"a\"\"; drop table b; --_history\""
        );
    }
}
