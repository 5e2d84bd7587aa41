//! `@every D`: intervals of real time.

use std::fmt;
use std::time::Duration;

use fencepost_core::{Error, Result};

use super::part::Part;

/// The shortest interval: 1 s.
pub const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// The longest interval: 366 days.
pub const LONGEST_INTERVAL: Duration = Duration::from_secs(366 * 24 * 60 * 60);

const ALLOWED: &str = "allowed are 1 s to 366 days in the units ms, s, m, h, d and w, such as `30s` or `1h30m`";

/// Milliseconds a unit, largest first, with what it prints as and what else it may be called.
const UNITS: [(&str, u64, &[&str]); 6] = [
    ("w", 7 * 86_400_000, &["week", "weeks"]),
    ("d", 86_400_000, &["day", "days"]),
    ("h", 3_600_000, &["hr", "hrs", "hour", "hours"]),
    ("m", 60_000, &["min", "mins", "minute", "minutes"]),
    ("s", 1_000, &["sec", "secs", "second", "seconds"]),
    ("ms", 1, &["msec", "millis", "milliseconds"]),
];

/// Reads what follows `@every` in `whole`.
///
/// # Errors
/// `invalid_input`.
pub fn parse(whole: Part<'_>, duration: Part<'_>) -> Result<Duration> {
    if duration.is_empty() {
        return Err(whole.refuse_all("the interval is missing", ALLOWED));
    }
    let mut rest = duration;
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (number, after) = rest.split_while(|c| c.is_ascii_digit());
        let (unit, after) = after.trimmed().split_while(|c| !c.is_ascii_digit() && !c.is_whitespace());
        if number.is_empty() {
            return Err(unit.refuse("interval", "is no number and unit", ALLOWED));
        }
        let Some((_, millis, _)) = UNITS.iter().find(|(name, _, others)| {
            unit.text().eq_ignore_ascii_case(name) || others.iter().any(|other| unit.text().eq_ignore_ascii_case(other))
        }) else {
            let why = if unit.is_empty() { "has no unit" } else { "is no unit of time" };
            return Err(if unit.is_empty() { number } else { unit }.refuse("interval", why, ALLOWED));
        };
        let part = number.text().parse().ok().and_then(|number: u64| number.checked_mul(*millis));
        total = part.and_then(|part| total.checked_add(part)).ok_or_else(|| out_of_range(duration))?;
        rest = after.trimmed();
    }
    let interval = Duration::from_millis(total);
    if (SHORTEST_INTERVAL..=LONGEST_INTERVAL).contains(&interval) { Ok(interval) } else { Err(out_of_range(duration)) }
}

fn out_of_range(duration: Part<'_>) -> Error {
    duration.refuse("interval", "is out of range", ALLOWED)
}

/// Writes the canonical text.
pub fn write(interval: Duration, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("@every ")?;
    let mut rest = interval.as_millis() as u64;
    // Weeks are read, but days tell more of a long interval.
    for (name, millis, _) in &UNITS[1..] {
        if rest / millis > 0 {
            write!(f, "{}{name}", rest / millis)?;
        }
        rest %= millis;
    }
    Ok(())
}
