//! What no migration may hold, found before anything is executed.

use super::MigrationOptions;
use crate::diagnostic::Diagnostic;
use crate::sql::{Dialect, Statement, Token, TokenKind, Unterminated};

/// The text of a file.
pub(super) fn decoded<'b>(file: &str, bytes: &'b [u8]) -> Result<&'b str, Box<Diagnostic>> {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        let message = "the file begins with a byte order mark";
        return Err(Diagnostic::of_file("byte_order_mark", message, file, "save it as UTF-8 without one").into());
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        // What is right before it is shown.
        let right = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
        let message = format!("this is not UTF-8: byte 0x{:02x}", bytes[error.valid_up_to()]);
        Box::new(Diagnostic::at("not_utf8", message, (file, right, right.len()..right.len()), "save the file as UTF-8"))
    })?;
    match text.find('\0') {
        Some(at) => Err(Diagnostic::at(
            "nul",
            "the file holds a NUL, which no statement can",
            (file, text, at..at + 1),
            "remove it; text in UTF-16 has many",
        )
        .into()),
        None => Ok(text),
    }
}

pub(super) fn unterminated(file: &str, text: &str, open: &Unterminated) -> Diagnostic {
    let first = text[open.at..].chars().next().map_or(0, char::len_utf8);
    let hint = format!("it would end with `{}`", open.end);
    Diagnostic::at(
        "unterminated",
        format!("this {} has no end", open.what),
        (file, text, open.at..open.at + first),
        hint,
    )
}

/// Everything that is wrong with the statements.
pub(super) fn statements(
    file: &str,
    text: &str,
    tokens: &[Token],
    statements: &[Statement],
    dialect: Dialect,
    options: &MigrationOptions,
) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    if statements.is_empty() {
        let message = if text.trim().is_empty() { "the file is empty" } else { "the file holds only comments" };
        problems.push(Diagnostic::of_file("empty", message, file, "write a statement, or remove the file"));
    }
    // Of psql, or of sqlite3, for which a line that begins with a full stop is one.
    for token in tokens.iter().filter(|token| token.kind == TokenKind::Backslash) {
        problems.push(Diagnostic::at(
            "client_command",
            "this is a command of psql, not SQL",
            (file, text, token.span.clone()),
            "a migration holds SQL alone; write what the command does as SQL",
        ));
    }
    for statement in statements {
        let first = first_token(tokens, statement);
        let place = (file, text, first.span.clone());
        if dialect == Dialect::Sqlite && text[first.span.clone()].starts_with('.') {
            problems.push(Diagnostic::at(
                "client_command",
                "this is a command of the sqlite3 shell, not SQL",
                place,
                "a migration holds SQL alone; write what the command does as SQL",
            ));
        } else if let Some((code, message, hint)) = refusal(text, tokens, statement, dialect, options) {
            problems.push(Diagnostic::at(code, message, place, hint));
        }
    }
    problems
}

fn first_token<'t>(tokens: &'t [Token], statement: &Statement) -> &'t Token {
    let at = tokens.partition_point(|token| token.span.start < statement.span.start);
    &tokens[at]
}

type Refusal = (&'static str, String, &'static str);

fn refusal(
    text: &str,
    tokens: &[Token],
    statement: &Statement,
    dialect: Dialect,
    options: &MigrationOptions,
) -> Option<Refusal> {
    let words: Vec<&str> = statement.words.iter().map(String::as_str).collect();
    if is_transaction_control(&words, dialect) {
        let message = format!("`{}` begins or ends a transaction", words[0]);
        let hint = if options.no_transaction {
            "each statement of this file commits by itself; put what belongs together into a file of its own"
        } else {
            "the file is one transaction by itself; `-- fencepost: no-transaction` at its beginning makes each statement one"
        };
        return Some(("transaction_control", message, hint));
    }
    if dialect == Dialect::Postgres && is_copy_from_client(text, tokens, statement) {
        let hint = "write the rows as INSERT, or load them by a program of your own";
        return Some(("copy_from_stdin", "`COPY` with STDIN or STDOUT needs a client with data".into(), hint));
    }
    if dialect == Dialect::Postgres && names_no_index(&words) {
        let hint = "give the index a name, so that one that a failed build leaves behind INVALID can be found";
        return Some(("index_without_name", "an index that is built concurrently has no name".into(), hint));
    }
    if !options.no_transaction && cannot_be_in_transaction(&words, dialect) {
        let message = format!("`{}` cannot run in a transaction", words.join(" "));
        return Some((
            "needs_no_transaction",
            message,
            "put it into a file of its own that begins with `-- fencepost: no-transaction`",
        ));
    }
    None
}

fn is_transaction_control(words: &[&str], dialect: Dialect) -> bool {
    matches!(
        (dialect, words),
        (_, ["BEGIN" | "COMMIT" | "ROLLBACK" | "SAVEPOINT" | "RELEASE" | "END", ..])
            | (Dialect::Postgres, ["ABORT", ..] | ["START" | "PREPARE", "TRANSACTION", ..])
    )
}

/// `COPY … FROM STDIN` and `COPY … TO STDOUT`, whatever the table is called and whatever options follow.
fn is_copy_from_client(text: &str, tokens: &[Token], statement: &Statement) -> bool {
    statement.words.first().is_some_and(|word| word == "COPY")
        && tokens
            .iter()
            .filter(|token| token.kind == TokenKind::Word && statement.span.contains(&token.span.start))
            .any(|token| matches!(text[token.span.clone()].to_ascii_uppercase().as_str(), "STDIN" | "STDOUT"))
}

fn names_no_index(words: &[&str]) -> bool {
    matches!(
        words,
        ["CREATE", "INDEX", "CONCURRENTLY", "ON", ..] | ["CREATE", "UNIQUE", "INDEX", "CONCURRENTLY", "ON", ..]
    )
}

/// The common ones. The server refuses the others, and the runner says the same of them.
fn cannot_be_in_transaction(words: &[&str], dialect: Dialect) -> bool {
    matches!(
        (dialect, words),
        (_, ["VACUUM", ..])
            | (Dialect::Sqlite, ["ATTACH" | "DETACH", ..])
            // SQLite does nothing of the kind in a transaction, and says nothing.
            | (Dialect::Sqlite, ["PRAGMA", "FOREIGN_KEYS" | "JOURNAL_MODE" | "SYNCHRONOUS", ..])
            | (Dialect::Postgres, ["CREATE" | "DROP", "DATABASE" | "TABLESPACE", ..] | ["ALTER", "SYSTEM", ..])
            | (Dialect::Postgres, ["CREATE" | "DROP", "INDEX", "CONCURRENTLY", ..])
            | (Dialect::Postgres, ["CREATE", "UNIQUE", "INDEX", "CONCURRENTLY", ..])
            | (
                Dialect::Postgres,
                ["REINDEX", _, "CONCURRENTLY", ..] | ["REINDEX", "DATABASE" | "SYSTEM" | "SCHEMA", ..]
            )
    )
}
