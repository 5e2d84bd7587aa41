//! A piece of a spec's text that knows where it stands, so that every refusal tells the place, the value and what is allowed there.

use std::fmt;

use fencepost_core::{Error, visible};

/// How much of a refused text is shown.
const SHOWN: usize = 60;

/// A piece of a text.
#[derive(Debug, Clone, Copy)]
pub struct Part<'t> {
    whole: &'t str,
    start: usize,
    end: usize,
}

impl<'t> Part<'t> {
    /// All of a text, without blanks around it.
    pub fn of(whole: &'t str) -> Self {
        Self { whole, start: 0, end: whole.len() }.trimmed()
    }

    /// The piece itself.
    pub fn text(self) -> &'t str {
        &self.whole[self.start..self.end]
    }

    /// Where it begins, in characters from 1.
    pub fn column(self) -> usize {
        self.whole[..self.start].chars().count() + 1
    }

    /// Whether nothing is in it.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Cut before byte `at`, which must be where a character begins.
    pub fn split_at(self, at: usize) -> (Self, Self) {
        let middle = self.start + at;
        (Self { end: middle, ..self }, Self { start: middle, ..self })
    }

    /// What stands before and after the first `separator`.
    pub fn split_once(self, separator: char) -> Option<(Self, Self)> {
        let at = self.text().find(separator)?;
        let (before, after) = self.split_at(at);
        Some((before, after.split_at(separator.len_utf8()).1))
    }

    /// What stands between separators.
    pub fn split(self, separator: char) -> impl Iterator<Item = Self> {
        let mut rest = Some(self);
        std::iter::from_fn(move || {
            let here = rest?;
            let (piece, after) = here.split_once(separator).map_or((here, None), |(piece, after)| (piece, Some(after)));
            rest = after;
            Some(piece)
        })
    }

    /// What stands between blanks.
    pub fn words(self) -> impl Iterator<Item = Self> {
        let mut rest = self.trimmed();
        std::iter::from_fn(move || {
            let (word, after) = rest.split_while(|c| !c.is_whitespace());
            rest = after.trimmed();
            (!word.is_empty()).then_some(word)
        })
    }

    /// The characters from the beginning on that are `wanted`, and the rest.
    pub fn split_while(self, wanted: impl Fn(char) -> bool) -> (Self, Self) {
        let text = self.text();
        self.split_at(text.find(|c| !wanted(c)).unwrap_or(text.len()))
    }

    /// Without blanks around it.
    pub fn trimmed(self) -> Self {
        let text = self.text();
        let start = self.start + (text.len() - text.trim_start().len());
        Self { start, end: start + text.trim().len(), ..self }
    }

    /// An error about this piece, which is of a `field`.
    pub fn refuse(self, field: &'static str, why: impl fmt::Display, hint: impl Into<String>) -> Error {
        let (value, column) = (shown(self.text()), self.column());
        let why = format!("{field} `{value}` at column {column} {why}");
        self.refuse_all(why, hint).with("column", column).with("field", field).with("value", value)
    }

    /// An error about the text as a whole.
    pub fn refuse_all(self, why: impl fmt::Display, hint: impl Into<String>) -> Error {
        let whole = shown(self.whole.trim());
        Error::invalid(format!("cannot use `{whole}` as a schedule: {why}"), hint.into()).with("argument", "spec")
    }
}

/// A text as it may appear in a message.
fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).flat_map(visible).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}
