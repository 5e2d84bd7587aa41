//! One instant: a time in RFC 3339 with an offset, or a local time of whatever zone the schedule has.

use std::fmt;

use fencepost_core::{Error, Result, Timestamp};

use super::part::Part;
use crate::calendar::{Date, LocalTime};

const ALLOWED: &str = "allowed is a time of the years 1970 to 9999 in whole seconds, such as `2026-12-24T18:00:00Z`, \
                       `2026-12-24T18:00:00+01:00`, or `2026-12-24T18:00:00` in the schedule's zone";

/// When to fire once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instant {
    /// Then.
    Fixed(Timestamp),
    /// When the clocks of the zone show it.
    Local(LocalTime),
}

/// Whether a spec whose first word this is names an instant: no cron field begins with a year and a hyphen.
pub fn begins(word: Part<'_>) -> bool {
    let (year, rest) = word.split_while(|c| c.is_ascii_digit());
    year.text().len() == 4 && rest.text().starts_with('-')
}

/// Reads a time.
///
/// # Errors
/// `invalid_input`.
pub fn parse(text: Part<'_>) -> Result<Instant> {
    let mut reader = Reader { rest: text };
    let year = reader.number("year", 4, 1970, 9999)?;
    reader.one_of("time", "-")?;
    let month = reader.number("month", 2, 1, 12)?;
    reader.one_of("time", "-")?;
    let at_day = reader.rest;
    let day = reader.number("day", 2, 1, 31)?;
    let date = Date::new(i64::from(year), month, day)
        .ok_or_else(|| at_day.split_at(2).0.refuse("day", "is not in that month", ALLOWED))?;
    reader.one_of("time", "Tt ")?;
    let hour = reader.number("hour", 2, 0, 23)?;
    reader.one_of("time", ":")?;
    let minute = reader.number("minute", 2, 0, 59)?;
    let mut second = 0;
    if reader.rest.text().starts_with(':') {
        reader.one_of("time", ":")?;
        second = reader.number("second", 2, 0, 59)?;
    }
    let local = LocalTime::new(date, hour * 3600 + minute * 60 + second);
    let offset = reader.offset()?;
    if !reader.rest.is_empty() {
        return Err(reader.rest.refuse("time", "is not expected there", ALLOWED));
    }
    let Some(offset) = offset else { return Ok(Instant::Local(local)) };
    let fixed = local.seconds() - offset;
    if !(0..=LocalTime::LAST.seconds()).contains(&fixed) {
        return Err(text.refuse("time", "is out of range", ALLOWED));
    }
    Ok(Instant::Fixed(Timestamp::from_micros(fixed * 1_000_000)))
}

/// What of the text is still to be read.
struct Reader<'t> {
    rest: Part<'t>,
}

impl Reader<'_> {
    fn number(&mut self, field: &'static str, digits: usize, least: u32, most: u32) -> Result<u32> {
        let (run, _) = self.rest.split_while(|c| c.is_ascii_digit());
        if run.text().len() < digits {
            return Err(self.rest.refuse(field, format!("does not begin with {digits} digits"), ALLOWED));
        }
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let found = number.text().parse().ok().filter(|found| (least..=most).contains(found));
        found.ok_or_else(|| number.refuse(field, "is out of range", format!("allowed are {least:02} to {most}")))
    }

    /// Takes the next character, which must be one of those.
    fn one_of(&mut self, field: &'static str, allowed: &str) -> Result<char> {
        match self.rest.text().chars().next() {
            Some(found) if allowed.contains(found) => {
                self.rest = self.rest.split_at(found.len_utf8()).1;
                Ok(found)
            }
            _ => Err(self.rest.refuse(field, format!("does not go on with `{}`", &allowed[..1]), ALLOWED)),
        }
    }

    /// Seconds east of UTC, if there is an offset.
    fn offset(&mut self) -> Result<Option<i64>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let sign = match self.one_of("offset", "Zz+-").map_err(|error| self.without_fraction(error))? {
            '+' => 1,
            '-' => -1,
            _ => return Ok(Some(0)),
        };
        let hours = self.number("offset", 2, 0, 23)?;
        self.one_of("offset", ":")?;
        let minutes = self.number("offset", 2, 0, 59)?;
        Ok(Some(sign * i64::from(hours * 3600 + minutes * 60)))
    }

    fn without_fraction(&self, error: Error) -> Error {
        if self.rest.text().starts_with('.') {
            return self.rest.refuse(
                "second",
                "is a fraction of a second",
                "leave it out: schedules have whole seconds",
            );
        }
        error
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Instant::Fixed(at) => write!(f, "@at {}Z", LocalTime::from_seconds(at.as_micros() / 1_000_000)),
            Instant::Local(local) => write!(f, "@at {local}"),
        }
    }
}
