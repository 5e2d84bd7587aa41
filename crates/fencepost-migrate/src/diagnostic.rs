//! A problem in a file, with its place, as people and programs read it.

use std::error::Error as StdError;
use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use fencepost_core::{Error, Kind, harmless};

/// Where something is in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, as it was named.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

impl Place {
    /// The place of the byte `at` of `text`, at which a character begins.
    pub fn of(file: &str, text: &str, at: usize) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line_begin = before.rfind('\n').map_or(0, |end| end + 1);
        Self {
            file: file.into(),
            line: before.matches('\n').count() + 1,
            column: before[line_begin..].chars().count() + 1,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One problem of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Stable, for programs: `unterminated`, `transaction_control`, ...
    pub code: &'static str,
    /// What is wrong, in lower case.
    pub message: String,
    /// Where it is.
    pub place: Place,
    /// What can be done.
    pub hint: String,
    /// The text around it, and where in that it is, in bytes; none where a file as a whole is wrong.
    excerpt: Option<(String, Range<usize>)>,
}

/// How many lines before and after a problem are kept.
const AROUND: usize = 2;

impl Diagnostic {
    /// A problem of what is at `span` of `text`.
    pub(crate) fn at(
        code: &'static str,
        message: impl Into<String>,
        (file, text, span): (&str, &str, Range<usize>),
        hint: impl Into<String>,
    ) -> Self {
        Self {
            code,
            message: message.into(),
            place: Place::of(file, text, span.start),
            hint: hint.into(),
            excerpt: Some((text.into(), span)),
        }
    }

    /// A problem of a file as a whole.
    pub(crate) fn of_file(
        code: &'static str,
        message: impl Into<String>,
        file: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let place = Place { file: file.into(), line: 1, column: 1 };
        Self { code, message: message.into(), place, hint: hint.into(), excerpt: None }
    }

    /// The problem with the lines around it, as a compiler shows it. `colours`: with escape sequences of a terminal.
    pub fn render(&self, colours: bool) -> String {
        let title = Level::ERROR.primary_title(self.message.as_str()).id(self.code);
        let group = match &self.excerpt {
            Some((text, span)) => {
                let (from, begin, shown) = window(text, span);
                let at = span.start - begin..(span.end - begin).min(shown.len()).max(span.start - begin);
                let snippet = Snippet::source(shown)
                    .path(self.place.file.as_str())
                    .line_start(from)
                    .annotation(AnnotationKind::Primary.span(at));
                title.element(snippet)
            }
            None => title.element(annotate_snippets::Origin::path(self.place.file.as_str())),
        };
        // SECURITY: the server's hint may hold text of others.
        let group = group.element(Level::HELP.message(harmless(&self.hint)));
        let renderer = if colours { Renderer::styled() } else { Renderer::plain() };
        renderer.render(&[group]).to_string()
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// The word of `text` that begins at `at`, or else the character there.
pub(crate) fn word_at(text: &str, at: usize) -> Range<usize> {
    let rest = &text[at..];
    let word = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    at..at + word.max(rest.chars().next().map_or(0, char::len_utf8))
}

/// The lines around `span`: the number of the first, where it begins in the text, and what they are.
fn window<'t>(text: &'t str, span: &Range<usize>) -> (usize, usize, &'t str) {
    let begin = text[..span.start].rmatch_indices('\n').nth(AROUND).map_or(0, |(at, _)| at + 1);
    let end = text[span.start..].match_indices('\n').nth(AROUND).map_or(text.len(), |(at, _)| span.start + at);
    (text[..begin].matches('\n').count() + 1, begin, &text[begin..end])
}

/// Everything that is wrong with the files, in their order. The source of an error with code `migration_invalid`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(Vec<Diagnostic>);

impl Problems {
    pub(crate) fn new(problems: Vec<Diagnostic>) -> Option<Self> {
        (!problems.is_empty()).then_some(Self(problems))
    }

    /// An error with all of them as its source, and the first in its message. Its code is the first one's.
    pub(crate) fn refuse(self, kind: Kind, what: &str) -> Error {
        let Some(first) = self.0.first() else { return Error::new(kind, what.to_owned()) };
        let more = match self.count() {
            1 => String::new(),
            count => format!(", and {} more", count - 1),
        };
        Error::new(kind, format!("{what}: {first}{more}"))
            .coded(first.code)
            .with("problems", self.count())
            .hinted(first.hint.clone())
            .caused_by(self)
    }

    /// Every one, at least one.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter()
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = self.0.iter();
        lines.next().map_or(Ok(()), |first| write!(f, "{first}"))?;
        lines.try_for_each(|next| write!(f, "; {next}"))
    }
}

impl StdError for Problems {}
