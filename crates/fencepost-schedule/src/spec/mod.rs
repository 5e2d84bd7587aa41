//! The text that says when a schedule fires: an interval, a cron spec, or one instant. What exists fires at some time.

mod cron;
mod every;
mod field;
mod instant;
mod part;

use std::fmt;
use std::time::Duration;

use fencepost_core::schedule::MAX_SPEC;
use fencepost_core::{Error, Kind, Result};

pub use self::cron::Cron;
pub use self::every::{LONGEST_INTERVAL, SHORTEST_INTERVAL};
pub use self::instant::Instant;
use self::part::Part;

const FORMS: &str = "allowed are `@every 30s`, 5 or 6 cron fields such as `0 8 * * mon-fri`, `@hourly`, `@daily`, `@weekly`, \
                     `@monthly`, `@yearly`, and a time such as `2026-12-24T18:00:00Z`";

/// When a schedule fires, before any zone.
///
/// - `@every D` with D from 1 s to 366 days, such as `30s` or `1h30m`: an interval of real time. A day is 24 hours of it.
/// - A time in RFC 3339, with or without `@at`: once. Without an offset it is a local time of the schedule's zone.
/// - Cron: minute, hour, day of the month, month, day of the week, with the second before them if there are six. A field is a list of
///   numbers, ranges `a-b`, steps `*/n` and `a-b/n`, names (`jan`, `mon`), `*`, and `L` for the last day of the month. Sunday is 0 or 7.
///   `?` is `*`. A day matches both day fields if one of them has a `*` in it; otherwise it suffices that it matches either.
/// - `@hourly`, `@daily` or `@midnight`, `@weekly`, `@monthly`, `@yearly` or `@annually`: the cron specs that they are short for.
///
/// It prints as canonical text, and two specs of one canonical text are equal.
///
/// ```
/// use fencepost_schedule::Spec;
///
/// assert_eq!(Spec::parse("  00 8,12 * * MON-fri ")?.to_string(), "0 8,12 * * 1-5");
/// assert_eq!(Spec::parse("@every 90m")?.to_string(), "@every 1h30m");
/// assert_eq!(Spec::parse("2026-12-24T18:00:00+01:00")?.to_string(), "@at 2026-12-24T17:00:00Z");
///
/// let error = Spec::parse("0 8 * * 1-8").unwrap_err();
/// assert_eq!((error.fact("field"), error.fact("column")), (Some("day of the week"), Some("11")));
/// # Ok::<_, fencepost_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Spec {
    text: String,
    when: When,
}

/// What a spec says.
#[derive(Debug, Clone)]
pub enum When {
    /// This often.
    Every(Duration),
    /// Whenever the clock on the wall matches.
    Cron(Cron),
    /// Once.
    At(Instant),
}

impl Spec {
    /// Reads a spec.
    ///
    /// # Errors
    /// `invalid_input`, with the facts `column` (in characters, from 1), `field` and `value` where one place is wrong, also for a spec
    /// that never fires; `limit_exceeded` when the text has more than 1,024 bytes.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > MAX_SPEC {
            return Err(Error::new(Kind::LimitExceeded, format!("cannot read a schedule of `{}` bytes", text.len()))
                .with("argument", "spec")
                .with("limit", MAX_SPEC)
                .hinted("a spec may have 1024 bytes; several schedules say more than one can"));
        }
        let when = parse(Part::of(text))?;
        Ok(Self { text: when.to_string(), when })
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The interval of an `@every`.
    pub fn interval(&self) -> Option<Duration> {
        match self.when {
            When::Every(interval) => Some(interval),
            When::Cron(_) | When::At(_) => None,
        }
    }

    pub(crate) fn when(&self) -> &When {
        &self.when
    }
}

fn parse(whole: Part<'_>) -> Result<When> {
    let (first, rest) = whole.split_while(|c| !c.is_whitespace());
    let rest = rest.trimmed();
    if let Some(name) = first.text().strip_prefix('@') {
        return match name.to_ascii_lowercase().as_str() {
            "every" => every::parse(whole, rest).map(When::Every),
            "at" => instant::parse(rest).map(When::At),
            name => named(name)
                .filter(|_| rest.is_empty())
                .map_or_else(|| Err(first.refuse("name", "is not known, or has something after it", FORMS)), parse),
        };
    }
    if whole.is_empty() {
        return Err(whole.refuse_all("it is blank", FORMS));
    }
    if instant::begins(first) {
        return instant::parse(whole).map(When::At);
    }
    if ["TZ=", "CRON_TZ="].iter().any(|prefix| first.text().starts_with(prefix)) {
        return Err(first.refuse("zone", "does not belong into a spec", "a schedule has its zone beside the spec"));
    }
    Cron::parse(whole).map(When::Cron)
}

/// What a name is short for.
fn named(name: &str) -> Option<Part<'static>> {
    Some(Part::of(match name {
        "hourly" => "0 * * * *",
        "daily" | "midnight" => "0 0 * * *",
        "weekly" => "0 0 * * 0",
        "monthly" => "0 0 1 * *",
        "yearly" | "annually" => "0 0 1 1 *",
        _ => return None,
    }))
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            When::Every(interval) => every::write(*interval, f),
            When::Cron(cron) => cron.fmt(f),
            When::At(instant) => instant.fmt(f),
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl PartialEq for Spec {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Spec {}

impl std::str::FromStr for Spec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}
