//! Time zones: what their clocks show at an instant, and at which instant they show a local time first. The only file that knows the
//! library of time zones.
//!
//! Everything here is one rule. Take the latest local time that the zone's clocks have shown so far: it stands still while an hour is
//! repeated, and jumps where one is skipped. A local time *is* at the first instant at which that is the local time or a later one.

use std::fmt;
use std::sync::OnceLock;

use fencepost_core::{Error, Result, Timestamp};
use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::calendar::LocalTime;

/// No clock is further from UTC than this, in seconds.
const FARTHEST: i64 = 26 * 3600;

/// How many names are offered for one that is not known.
const OFFERED: usize = 3;

/// A time zone of the IANA database: the one of this system, or, for a zone that it does not have, the one of the build.
///
/// ```
/// use fencepost_schedule::Zone;
///
/// assert_eq!(Zone::parse("europe/berlin")?.name(), "Europe/Berlin");
/// assert!(Zone::parse("Berlin").unwrap_err().hint().unwrap().contains("`Europe/Berlin`"));
/// # Ok::<_, fencepost_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Zone {
    name: String,
    rules: TimeZone,
}

/// A stretch of time with one offset: from `start` and before `end`, in seconds since 1970.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    start: i64,
    end: i64,
    offset: i64,
}

impl Zone {
    /// Finds a zone by its name, in whatever case.
    ///
    /// # Errors
    /// `invalid_input` when there is none of that name, with names that are close.
    pub fn parse(name: &str) -> Result<Self> {
        static SYSTEM: OnceLock<TimeZoneDatabase> = OnceLock::new();
        let system = SYSTEM.get_or_init(TimeZoneDatabase::from_env);
        Self::find(name, system).ok_or_else(|| unknown(name, system))
    }

    /// Coordinated universal time.
    pub fn utc() -> Self {
        Self { name: "UTC".into(), rules: TimeZone::UTC }
    }

    fn find(name: &str, system: &TimeZoneDatabase) -> Option<Self> {
        if !is_name(name) {
            return None;
        }
        let rules = system.get(name).or_else(|_| TimeZoneDatabase::bundled().get(name)).ok()?;
        let name = rules.iana_name().filter(|_| !rules.is_unknown())?.to_owned();
        Some(Self { name, rules })
    }

    /// The name, in the case of the database.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the clocks show.
    pub fn local(&self, at: Timestamp) -> LocalTime {
        let second = seconds(at);
        LocalTime::from_seconds(second + self.offset(second))
    }

    /// Seconds east of UTC.
    pub(crate) fn offset_at(&self, at: Timestamp) -> i64 {
        self.offset(seconds(at))
    }

    /// What the zone's time is called then, such as `CEST`.
    pub(crate) fn abbreviation_at(&self, at: Timestamp) -> String {
        self.rules.to_offset_info(instant(seconds(at))).abbreviation().to_owned()
    }

    /// The latest local time that the clocks have shown up to then.
    pub(crate) fn shown_by(&self, at: Timestamp) -> LocalTime {
        let second = seconds(at);
        let latest = |stretch: Stretch| second.min(stretch.end - 1) + stretch.offset;
        let shown = self.stretches(second - 2 * FARTHEST, second).map(latest).max();
        LocalTime::from_seconds(shown.unwrap_or(second)).min(LocalTime::LAST)
    }

    /// The first instant at which the clocks show a local time, or, if they skip it, the first one after the gap.
    pub(crate) fn first_at(&self, local: LocalTime) -> Timestamp {
        let wanted = local.seconds();
        let reached = |stretch: Stretch| {
            let at = stretch.start.max(wanted - stretch.offset);
            (at < stretch.end).then_some(at)
        };
        let at = self.stretches(wanted - FARTHEST, wanted + FARTHEST).find_map(reached);
        Timestamp::from_micros(at.unwrap_or(wanted).saturating_mul(1_000_000))
    }

    /// Whether the clocks show again what they show then.
    pub(crate) fn repeats(&self, at: Timestamp) -> bool {
        let second = seconds(at);
        let wanted = second + self.offset(second);
        let again = |stretch: Stretch| (stretch.start..stretch.end).contains(&(wanted - stretch.offset));
        self.stretches(second, second + 2 * FARTHEST).skip(1).any(again)
    }

    /// The instants at which an offset begins, after one and up to another.
    pub(crate) fn changes(&self, after: Timestamp, through: Timestamp) -> impl Iterator<Item = Timestamp> {
        let starts = self.stretches(seconds(after), seconds(through)).skip(1);
        starts.map(|stretch| Timestamp::from_micros(stretch.start * 1_000_000))
    }

    fn offset(&self, second: i64) -> i64 {
        self.rules.to_offset(instant(second)).seconds().into()
    }

    /// The stretches from one instant up to another. The first one begins there, the last one does not end.
    fn stretches(&self, from: i64, to: i64) -> impl Iterator<Item = Stretch> {
        let starts = self.rules.following(instant(from)).map(|change| {
            let offset = i64::from(change.offset().seconds());
            (change.timestamp().as_second(), offset)
        });
        let mut starts = starts.take_while(move |(start, _)| *start <= to);
        let mut here = Some((from, self.offset(from)));
        std::iter::from_fn(move || {
            let (start, offset) = here?;
            here = starts.next();
            Some(Stretch { start, end: here.map_or(i64::MAX, |(next, _)| next), offset })
        })
    }
}

/// Whole seconds since 1970.
fn seconds(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(1_000_000)
}

/// The library's instant; beyond its ends what is there goes on for ever.
fn instant(second: i64) -> jiff::Timestamp {
    let nearest = if second < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
    jiff::Timestamp::from_second(second).unwrap_or(nearest)
}

/// Whether a text can be the name of a zone. What depends on this host, and clocks that count leap seconds, are none.
fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_+-/".contains(&byte);
    let lower = name.to_ascii_lowercase();
    let depends = ["localtime", "posixrules", "factory"].contains(&lower.as_str());
    let is_variant = ["right/", "posix/"].iter().any(|folder| lower.starts_with(folder));
    (1..=255).contains(&name.len()) && name.bytes().all(is_plain) && !name.starts_with('/') && !depends && !is_variant
}

fn unknown(name: &str, system: &TimeZoneDatabase) -> Error {
    let shown: String = name.chars().take(40).flat_map(fencepost_core::visible).collect();
    let close = close_names(name, system);
    let close = match close.as_slice() {
        [] => String::new(),
        names => format!("; close is `{}`", names.join("`, `")),
    };
    Error::invalid(
        format!("cannot use `{shown}` as a time zone: there is none of that name"),
        format!("allowed are names of the IANA time zone database, such as `UTC` or `Europe/Berlin`{close}"),
    )
    .with("argument", "zone")
    .with("value", shown)
}

/// The names that differ least: by their last part, or by a letter or two.
fn close_names(name: &str, system: &TimeZoneDatabase) -> Vec<String> {
    let wanted = name.to_ascii_lowercase().replace(' ', "_");
    if wanted.is_empty() || wanted.len() > 40 {
        return Vec::new();
    }
    let bundled = TimeZoneDatabase::bundled();
    let names = system.available().chain(bundled.available()).map(|name| name.as_str().to_owned());
    let rank = |name: String| {
        let lower = name.to_ascii_lowercase();
        let last = lower.rsplit('/').next().unwrap_or(&lower);
        let distance = if last == wanted { 0 } else { distance(&lower, &wanted).min(distance(last, &wanted) + 1) };
        (distance <= 2 && is_name(&name)).then_some((distance, name))
    };
    let mut ranked: Vec<(usize, String)> = names.filter_map(rank).collect();
    ranked.sort_unstable();
    ranked.dedup();
    ranked.into_iter().take(OFFERED).map(|(_, name)| name).collect()
}

/// How many letters must be put in, left out or changed to make one text of another.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, other) in other.bytes().enumerate() {
            let changed = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

impl Default for Zone {
    fn default() -> Self {
        Self::utc()
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.name, f)
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Zone {}

impl std::str::FromStr for Zone {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::parse(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_that_the_system_lacks_is_that_of_the_build() {
        let berlin = Zone::find("Europe/Berlin", &TimeZoneDatabase::none()).unwrap();
        let summer = "2026-07-01T00:00:00Z".parse().unwrap();
        assert_eq!((berlin.offset_at(summer), berlin.abbreviation_at(summer)), (7_200, "CEST".to_owned()));
        assert_eq!(Zone::find("Europe/Nowhere", &TimeZoneDatabase::none()), None);
    }

    #[test]
    fn what_is_no_name_reaches_no_file() {
        for bad in
            ["", "/etc/passwd", "../../etc/passwd", "localtime", "right/UTC", "Etc/Unknown", "a b", "+02:00", "ä"]
        {
            assert!(Zone::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn distances_count_letters() {
        for (one, other, wanted) in [("", "abc", 3), ("abc", "", 3), ("berln", "berlin", 1), ("same", "same", 0)] {
            assert_eq!(distance(one, other), wanted, "{one} {other}");
        }
    }
}
