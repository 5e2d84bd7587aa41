//! Where statements end. A semicolon ends one unless it stands in parentheses, in a body of `BEGIN ATOMIC … END`, or in a trigger's.

use std::ops::Range;

use super::{Dialect, Token, TokenKind, Unterminated, tokens};

/// One statement of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// From its first token to its last, without comments around it and without its semicolon, in bytes.
    pub span: Range<usize>,
    /// The words that it begins with, in upper case, up to the first token that is none: `CREATE TABLE`, six at most.
    pub words: Vec<String>,
}

/// How many words of a statement are kept.
const WORDS: usize = 6;

/// Cuts `text` into its statements, in order. Between them there are only semicolons, blanks and comments.
///
/// ```
/// use fencepost_migrate::sql::{Dialect, split};
///
/// let text = "create table a (b text default ';'); -- done\n insert into a values ($$;$$)";
/// let statements = split(text, Dialect::Postgres).unwrap();
/// assert_eq!(&text[statements[1].span.clone()], "insert into a values ($$;$$)");
/// ```
///
/// # Errors
/// When a string, a name or a comment has no end.
pub fn split(text: &str, dialect: Dialect) -> Result<Vec<Statement>, Unterminated> {
    let tokens = tokens(text, dialect)?;
    let mut statements = Vec::new();
    let mut open: Option<Open> = None;
    for token in tokens.iter().filter(|token| !matches!(token.kind, TokenKind::Space | TokenKind::Comment)) {
        let is_end = token.kind == TokenKind::Semicolon
            && open.as_ref().is_none_or(|statement| statement.body.ends_at_semicolon(dialect));
        if is_end {
            statements.extend(open.take().map(Open::close));
        } else {
            open.get_or_insert_with(|| Open::new(token.span.start)).add(text, token, dialect);
        }
    }
    statements.extend(open.map(Open::close));
    Ok(statements)
}

/// A statement whose end is not reached.
struct Open {
    span: Range<usize>,
    words: Vec<String>,
    /// Whether all tokens so far are words.
    is_begun: bool,
    body: Body,
}

impl Open {
    fn new(from: usize) -> Self {
        Self { span: from..from, words: Vec::new(), is_begun: true, body: Body::default() }
    }

    fn add(&mut self, text: &str, token: &Token, dialect: Dialect) {
        self.span.end = token.span.end;
        let word = (token.kind == TokenKind::Word).then(|| text[token.span.clone()].to_ascii_uppercase());
        self.is_begun &= word.is_some() && self.words.len() < WORDS;
        if let Some(word) = word.as_ref().filter(|_| self.is_begun) {
            self.words.push(word.clone());
        }
        let first: Vec<&str> = self.words.iter().map(String::as_str).collect();
        self.body.add(token.kind, word.as_deref(), Kind::of(&first, dialect));
    }

    fn close(self) -> Statement {
        Statement { span: self.span, words: self.words }
    }
}

/// Which statements may have semicolons in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `CREATE [OR REPLACE] FUNCTION` and `PROCEDURE` of PostgreSQL: a body in SQL is `BEGIN ATOMIC … END`.
    Routine,
    /// `CREATE [TEMP] TRIGGER` of SQLite: it ends with `; END`.
    Trigger,
    Plain,
}

impl Kind {
    fn of(words: &[&str], dialect: Dialect) -> Self {
        match (dialect, words) {
            (Dialect::Postgres, ["CREATE", "OR", "REPLACE", "FUNCTION" | "PROCEDURE", ..])
            | (Dialect::Postgres, ["CREATE", "FUNCTION" | "PROCEDURE", ..]) => Self::Routine,
            (Dialect::Sqlite, ["EXPLAIN", "QUERY", "PLAN", rest @ ..] | ["EXPLAIN", rest @ ..] | rest) => match rest {
                ["CREATE", "TRIGGER", ..] | ["CREATE", "TEMP" | "TEMPORARY", "TRIGGER", ..] => Self::Trigger,
                _ => Self::Plain,
            },
            _ => Self::Plain,
        }
    }
}

/// How deep inside a statement its last token is.
#[derive(Debug, Default)]
struct Body {
    parentheses: u32,
    /// Of `BEGIN ATOMIC` and the `CASE`s in it.
    blocks: u32,
    /// Of the last words: that the last one is `BEGIN`.
    after_begin: bool,
    is_trigger: bool,
    /// Of a trigger: how much of `; END` was read.
    ending: Ending,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Ending {
    #[default]
    None,
    Semicolon,
    End,
}

impl Body {
    fn add(&mut self, kind: TokenKind, word: Option<&str>, of: Kind) {
        self.is_trigger = of == Kind::Trigger;
        self.ending = match (kind, word, &self.ending) {
            (TokenKind::Semicolon, ..) => Ending::Semicolon,
            (_, Some("END"), Ending::Semicolon) => Ending::End,
            _ => Ending::None,
        };
        match kind {
            TokenKind::Open => self.parentheses += 1,
            TokenKind::Close => self.parentheses = self.parentheses.saturating_sub(1),
            _ => {}
        }
        if of == Kind::Routine && self.parentheses == 0 {
            match word {
                Some("ATOMIC") if self.after_begin => self.blocks += 1,
                Some("CASE") if self.blocks > 0 => self.blocks += 1,
                Some("END") => self.blocks = self.blocks.saturating_sub(1),
                _ => {}
            }
        }
        self.after_begin = word == Some("BEGIN");
    }

    fn ends_at_semicolon(&self, dialect: Dialect) -> bool {
        match dialect {
            Dialect::Sqlite => !self.is_trigger || self.ending == Ending::End,
            Dialect::Postgres => self.parentheses == 0 && self.blocks == 0,
        }
    }
}
