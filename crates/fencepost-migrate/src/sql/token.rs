//! Cuts a text into tokens that tile it: put together again they are the text.

use std::ops::Range;

use super::{Dialect, Unterminated};

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// Blanks, tabs, line ends.
    Space,
    /// `-- …` up to the end of the line, or `/* … */`.
    Comment,
    /// A name or a keyword without quotes.
    Word,
    /// A name in quotes.
    Quoted,
    /// A string of any kind, with its prefix and its continuation on later lines.
    Text,
    /// A number.
    Number,
    /// `$1`, `?1`, `:name`.
    Parameter,
    /// `;`
    Semicolon,
    /// `(`
    Open,
    /// `)`
    Close,
    /// A backslash, which stands in no SQL but begins a command of psql.
    Backslash,
    /// Anything else, a character each.
    Other,
}

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Where it is, in bytes.
    pub span: Range<usize>,
}

/// Cuts `text` into tokens.
///
/// ```
/// use fencepost_migrate::sql::{Dialect, TokenKind, tokens};
///
/// let kinds: Vec<_> = tokens("select $$;$$", Dialect::Postgres).unwrap().into_iter().map(|token| token.kind).collect();
/// assert_eq!(kinds, [TokenKind::Word, TokenKind::Space, TokenKind::Text]);
/// ```
///
/// # Errors
/// When a string, a name or a comment has no end.
pub fn tokens(text: &str, dialect: Dialect) -> Result<Vec<Token>, Unterminated> {
    let mut lexer = Lexer { text, bytes: text.as_bytes(), dialect, at: 0 };
    let mut tokens = Vec::new();
    while lexer.at < text.len() {
        let from = lexer.at;
        let kind = lexer.next()?;
        tokens.push(Token { kind, span: from..lexer.at });
    }
    Ok(tokens)
}

struct Lexer<'t> {
    text: &'t str,
    bytes: &'t [u8],
    dialect: Dialect,
    at: usize,
}

/// Whether a name may begin with it. Every character outside ASCII may.
fn begins_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn continues_word(byte: u8) -> bool {
    begins_word(byte) || byte.is_ascii_digit() || byte == b'$'
}

/// What both dialects take for blanks, the vertical tab of PostgreSQL 16 included.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0b' | b'\x0c')
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn skip_while(&mut self, wanted: impl Fn(u8) -> bool) {
        while self.bytes.get(self.at).is_some_and(|byte| wanted(*byte)) {
            self.at += 1;
        }
    }

    fn next(&mut self) -> Result<TokenKind, Unterminated> {
        let postgres = self.dialect == Dialect::Postgres;
        Ok(match (self.peek(0), self.peek(1)) {
            (byte, _) if is_space(byte) => {
                self.skip_while(is_space);
                TokenKind::Space
            }
            (b'-', b'-') => {
                // A lone carriage return ends a line for PostgreSQL, not for SQLite.
                self.skip_while(|byte| byte != b'\n' && !(postgres && byte == b'\r'));
                TokenKind::Comment
            }
            (b'/', b'*') => self.block_comment()?,
            (b'\'', _) => self.text(0, false)?,
            (b'e' | b'E', b'\'') if postgres => self.text(1, true)?,
            (b'b' | b'B' | b'x' | b'X', b'\'') => self.text(1, false)?,
            (b'n' | b'N', b'\'') if postgres => self.text(1, false)?,
            (b'u' | b'U', b'&') if postgres && self.peek(2) == b'\'' => self.text(2, false)?,
            (b'u' | b'U', b'&') if postgres && self.peek(2) == b'"' => {
                self.at += 2;
                self.quoted(b'"')?
            }
            (b'"', _) => self.quoted(b'"')?,
            (b'`', _) if !postgres => self.quoted(b'`')?,
            (b'[', _) if !postgres => self.bracketed()?,
            (b'$', next) if postgres => self.dollar(next)?,
            (b'$' | b'@' | b':' | b'#', next) if !postgres && continues_word(next) => {
                self.at += 1;
                self.skip_while(continues_word);
                TokenKind::Parameter
            }
            (b'?', _) if !postgres => {
                self.at += 1;
                self.skip_while(|byte| byte.is_ascii_digit());
                TokenKind::Parameter
            }
            (byte, _) if begins_word(byte) => {
                self.skip_while(continues_word);
                TokenKind::Word
            }
            (byte, next) if byte.is_ascii_digit() || (byte == b'.' && next.is_ascii_digit()) => {
                self.number();
                TokenKind::Number
            }
            (byte, _) => {
                self.at += 1;
                match byte {
                    b';' => TokenKind::Semicolon,
                    b'(' => TokenKind::Open,
                    b')' => TokenKind::Close,
                    b'\\' => TokenKind::Backslash,
                    _ => TokenKind::Other,
                }
            }
        })
    }

    /// Goes past a number. A letter right after it, as in `1a$b$c`, begins a name, which is of the same token here: no end of a
    /// statement is in it either way.
    fn number(&mut self) {
        let is_prefixed = self.peek(0) == b'0' && matches!(self.peek(1), b'x' | b'X' | b'o' | b'O' | b'b' | b'B');
        if is_prefixed {
            self.at += 2;
            self.skip_while(|byte| byte.is_ascii_hexdigit() || byte == b'_');
        } else {
            self.skip_while(|byte| byte.is_ascii_digit() || byte == b'_' || byte == b'.');
            let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if matches!(self.peek(0), b'e' | b'E') && self.peek(1 + sign).is_ascii_digit() {
                self.at += 1 + sign;
                self.skip_while(|byte| byte.is_ascii_digit() || byte == b'_');
            }
        }
        if begins_word(self.peek(0)) {
            self.skip_while(continues_word);
        }
    }

    /// Comments nest in PostgreSQL. In SQLite they do not, and the end of the text ends one.
    fn block_comment(&mut self) -> Result<TokenKind, Unterminated> {
        let from = self.at;
        let mut depth = 0_usize;
        while self.at < self.bytes.len() {
            match (self.peek(0), self.peek(1)) {
                (b'/', b'*') if depth == 0 || self.dialect == Dialect::Postgres => {
                    depth += 1;
                    self.at += 2;
                }
                (b'*', b'/') => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return Ok(TokenKind::Comment);
                    }
                }
                _ => self.at += 1,
            }
        }
        Err(Unterminated { what: "comment", end: "*/".into(), at: from })
    }

    /// A string after a prefix of so many bytes. PostgreSQL goes on with it after blanks and comments with a line end among them, in the
    /// same way in which it was begun.
    fn text(&mut self, prefix: usize, has_escapes: bool) -> Result<TokenKind, Unterminated> {
        let from = self.at;
        self.at += prefix;
        loop {
            self.at += 1;
            if !self.skip_to_quote(b'\'', has_escapes) {
                return Err(Unterminated { what: "string", end: "'".into(), at: from });
            }
            match self.continuation() {
                Some(next) if self.dialect == Dialect::Postgres => self.at = next,
                _ => return Ok(TokenKind::Text),
            }
        }
    }

    fn quoted(&mut self, quote: u8) -> Result<TokenKind, Unterminated> {
        let from = self.at;
        self.at += 1;
        if self.skip_to_quote(quote, false) {
            Ok(TokenKind::Quoted)
        } else {
            Err(Unterminated { what: "quoted name", end: char::from(quote).to_string(), at: from })
        }
    }

    fn bracketed(&mut self) -> Result<TokenKind, Unterminated> {
        let from = self.at;
        self.skip_while(|byte| byte != b']');
        if self.at == self.bytes.len() {
            return Err(Unterminated { what: "quoted name", end: "]".into(), at: from });
        }
        self.at += 1;
        Ok(TokenKind::Quoted)
    }

    /// Goes past the next quote that is not doubled and not escaped; false: there is none.
    fn skip_to_quote(&mut self, quote: u8, has_escapes: bool) -> bool {
        while self.at < self.bytes.len() {
            if has_escapes && self.peek(0) == b'\\' {
                self.at += 2;
            } else if self.peek(0) != quote {
                self.at += 1;
            } else if self.peek(1) == quote {
                self.at += 2;
            } else {
                self.at += 1;
                return true;
            }
        }
        self.at = self.bytes.len();
        false
    }

    /// Where a string that ended here goes on: at the quote after blanks and line comments with a line end before it.
    fn continuation(&self) -> Option<usize> {
        let (mut at, mut has_line_end) = (self.at, false);
        loop {
            match self.bytes.get(at) {
                Some(b'\n' | b'\r') => has_line_end = true,
                Some(byte) if is_space(*byte) => {}
                Some(b'-') if self.bytes.get(at + 1) == Some(&b'-') => {
                    at += self.bytes[at..].iter().position(|byte| matches!(byte, b'\n' | b'\r'))?;
                    continue;
                }
                Some(b'\'') if has_line_end => return Some(at),
                _ => return None,
            }
            at += 1;
        }
    }

    /// `$1`, `$tag$ … $tag$`, or a lone dollar.
    fn dollar(&mut self, next: u8) -> Result<TokenKind, Unterminated> {
        let from = self.at;
        self.at += 1;
        if next.is_ascii_digit() {
            self.skip_while(|byte| byte.is_ascii_digit());
            return Ok(TokenKind::Parameter);
        }
        let named = begins_word(next);
        if named {
            self.skip_while(|byte| begins_word(byte) || byte.is_ascii_digit());
        }
        if self.peek(0) != b'$' {
            self.at = from + 1;
            return Ok(TokenKind::Other);
        }
        self.at += 1;
        let tag = &self.text[from..self.at];
        match self.text[self.at..].find(tag) {
            Some(length) => {
                self.at += length + tag.len();
                Ok(TokenKind::Text)
            }
            None => Err(Unterminated { what: "dollar-quoted string", end: tag.into(), at: from }),
        }
    }
}
