//! `fencepost doctor`: finds what is wrong, and says how to mend it. Changes nothing.
//!
//! `file` and `server` look at what the data is kept in, `queues` and `schedules` at what is kept.

mod file;
mod queues;
mod schedules;
mod server;

use fencepost::{Error, Kind, Result, Store};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::printer::Printer;
use crate::text;

/// How much is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing works, or what is stored is in danger.
    Error,
    /// Something waits for somebody.
    Warning,
    /// Good to know, and nothing has to be done.
    Note,
}

impl Severity {
    const fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// One thing that is wrong, or good to know.
#[derive(Debug)]
pub struct Finding {
    severity: Severity,
    code: &'static str,
    what: String,
    hint: String,
    /// What it is about, for programs.
    facts: Vec<(&'static str, Value)>,
}

impl Finding {
    fn error(code: &'static str, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { severity: Severity::Error, code, what: what.into(), hint: hint.into(), facts: Vec::new() }
    }

    fn warning(code: &'static str, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, what, hint) }
    }

    fn note(code: &'static str, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { severity: Severity::Note, ..Self::error(code, what, hint) }
    }

    /// Adds a fact for programs.
    fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.facts.push((name, value.into()));
        self
    }

    fn of(error: &Error) -> Self {
        let mut what = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(error) = cause {
            what += &format!(": {error}");
            cause = error.source();
        }
        Self::error(error.code(), what, error.hint().unwrap_or("see what it says and try again"))
    }
}

/// Runs the command.
///
/// # Errors
/// Only what is wrong with the command line; what is wrong with the store is found.
pub async fn run(url: &str, printer: &Printer) -> Result<Exit> {
    let open = fencepost::open(url);
    let leftovers = file::leftovers(&open.leftovers());
    let (findings, place) = match open.await {
        Ok(store) => {
            let examined = examine(&store).await;
            store.close().await;
            let findings = examined.unwrap_or_else(|error| vec![Finding::of(&error)]);
            (findings, Some(store.info().location))
        }
        Err(error) if error.kind() == Kind::InvalidInput => return Err(error),
        Err(error) => ([Finding::of(&error)].into_iter().chain(leftovers).collect(), None),
    };
    report(findings, place, printer)
}

async fn examine(store: &Store) -> Result<Vec<Finding>> {
    let mut findings = file::examine(store).await?;
    findings.extend(server::examine(store).await?);
    findings.extend(queues::examine(store).await?);
    findings.extend(schedules::examine(store).await?);
    findings.sort_by_key(|finding| finding.severity);
    Ok(findings)
}

fn report(findings: Vec<Finding>, place: Option<String>, printer: &Printer) -> Result<Exit> {
    let is_sound = is_sound(&findings);
    let human = || {
        let found: String = findings.iter().map(Finding::for_people).collect();
        if !is_sound {
            return found;
        }
        format!("{found}nothing is wrong with the store `{}`", place.unwrap_or_default())
    };
    printer.answer(human, || json!({"findings": findings.iter().map(Finding::as_json).collect::<Vec<_>>()}))?;
    Ok(if is_sound { Exit::Done } else { Exit::Refused })
}

/// Whether nothing has to be done.
fn is_sound(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.severity == Severity::Note)
}

impl Finding {
    fn for_people(&self) -> String {
        let style = match self.severity {
            Severity::Error => crate::printer::ERROR,
            Severity::Warning => crate::printer::WARNING,
            Severity::Note => crate::printer::NOTE,
        };
        let hint = crate::printer::HINT;
        let [what, mend] =
            [&self.what, &self.hint].map(|text| text.chars().flat_map(text::visible).collect::<String>());
        format!("{style}{}:{style:#} {what}\n  {hint}hint:{hint:#} {mend}\n", self.severity.as_str())
    }

    fn as_json(&self) -> Value {
        let mut finding =
            json!({"severity": self.severity.as_str(), "code": self.code, "what": self.what, "hint": self.hint});
        if !self.facts.is_empty() {
            finding["facts"] = self.facts.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        }
        finding
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_sound_as_long_as_nothing_has_to_be_done() {
        let note = || Finding::note("n", "it is so", "nothing has to be done");
        assert!(is_sound(&[]) && is_sound(&[note()]));
        assert!(!is_sound(&[note(), Finding::warning("w", "it waits", "do it")]));
        assert!(!is_sound(&[Finding::error("e", "it is broken", "mend it"), note()]));
    }
}
