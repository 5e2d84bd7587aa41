//! How numbers, times and durations read.

use std::time::{Duration, SystemTime};

use fencepost::{Error, Result, Timestamp};

pub use fencepost::{harmless, visible};

/// A number with its thousands set apart, for people.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 message`, `2 messages`: a number with its noun, for people.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A duration to about two digits, for people.
pub fn duration(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{} ms", duration.as_millis()),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// A size to about two digits, for people.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut size, mut unit) = (bytes, 0);
    while size >= 10 * 1024 && unit + 1 < UNITS.len() {
        (size, unit) = (size / 1024, unit + 1);
    }
    format!("{} {}", count(size), UNITS[unit])
}

/// When `at` is, seen from `now`, for people.
pub fn relative(at: Timestamp, now: Timestamp) -> String {
    if at > now { format!("in {}", duration(at.since(now))) } else { format!("{} ago", duration(now.since(at))) }
}

/// An instant in RFC 3339 with microseconds, in UTC, for programs.
pub fn rfc3339(at: Timestamp) -> String {
    humantime::format_rfc3339_micros(SystemTime::from(at)).to_string()
}

/// A name as a shell takes it, for commands that people copy.
pub fn shell_word(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:/".contains(c)) && !name.starts_with('-');
    if plain { name.to_owned() } else { format!("'{}'", name.replace('\'', r"'\''")) }
}

/// A duration as it is typed: `500ms`, `30s`, `1h 30m`.
///
/// # Errors
/// `invalid_input` for anything else; `what` says what it was to be, `allowed` what may be typed.
pub fn parse_duration(text: &str, argument: &'static str, what: &str, allowed: &'static str) -> Result<Duration> {
    humantime::parse_duration(text).map_err(|cause| {
        let why = match cause {
            humantime::DurationError::UnknownUnit { unit, .. } if unit.is_empty() => "a unit is missing".to_owned(),
            humantime::DurationError::UnknownUnit { unit, .. } => format!("`{unit}` is no unit of time"),
            humantime::DurationError::Empty => "it is empty".into(),
            humantime::DurationError::NumberOverflow => "it is too long".into(),
            _ => "it is not a number and a unit".into(),
        };
        Error::invalid(format!("cannot use `{text}` as {what}: {why}"), allowed).with("argument", argument)
    })
}

/// A duration as it is typed, that has to be within a range: `check` takes it and refuses what is out of it.
///
/// # Errors
/// `invalid_input`; `what` says what it was to be, `allowed` what may be typed.
pub fn parse_within<T>(
    text: &str,
    argument: &'static str,
    what: &str,
    allowed: &'static str,
    check: impl FnOnce(Duration) -> Result<T>,
) -> Result<T> {
    let duration = parse_duration(text, argument, what, allowed)?;
    check(duration).map_err(|_| {
        Error::invalid(format!("cannot use `{text}` as {what}: it is out of range"), allowed).with("argument", argument)
    })
}

/// A label by which people find this process; without the host when that is no part of a name.
///
/// # Errors
/// As `name`.
pub fn this_process<N>(name: impl Fn(String) -> Result<N>) -> Result<N> {
    let process = std::process::id();
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    name(format!("{host} process {process}")).or_else(|_| name(format!("process {process}")))
}

/// A duration to its last digit, in the largest unit that divides it, for people.
pub fn exact(duration: Duration) -> String {
    const UNITS: [(u128, &str); 5] =
        [(86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "min"), (1_000_000, "s"), (1_000, "ms")];
    let micros = duration.as_micros();
    let unit = UNITS.iter().find(|(size, _)| micros > 0 && micros.is_multiple_of(*size));
    let (size, unit) = unit.copied().unwrap_or(if micros == 0 { (1, "s") } else { (1, "µs") });
    format!("{} {unit}", micros / size)
}

/// As much of a text as fits a line: its first line's beginning, with control characters shown and the cut marked.
pub fn excerpt(text: &str, most: usize) -> String {
    let shown: String = text.trim_end().chars().take(most + 1).flat_map(visible).collect();
    let fits = shown.chars().count() <= most && text.trim_end().chars().count() <= most;
    if fits { shown } else { shown.chars().take(most.saturating_sub(1)).chain(['…']).collect() }
}

/// Text of others as it may reach a line of a terminal, with control characters shown.
pub fn shown(text: &str) -> String {
    text.chars().flat_map(visible).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        let table = [(0, "0"), (999, "999"), (1_000, "1,000"), (27_004, "27,004"), (1_234_567, "1,234,567")];
        for (number, text) in table {
            assert_eq!(count(number), text);
        }
        assert_eq!((counted(1, "slot"), counted(0, "slot")), ("1 slot".into(), "0 slots".into()));
    }

    #[test]
    fn durations_keep_about_two_digits() {
        let table = [(0, "0 ms"), (999, "999 ms"), (1_500, "1 s"), (119_000, "119 s"), (120_000, "2 min")];
        for (millis, text) in table.into_iter().chain([(7_200_000, "2 h"), (259_200_000, "3 d")]) {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
        let (now, later) = (Timestamp::from_micros(0), Timestamp::from_micros(30_000_000));
        assert_eq!((relative(later, now), relative(now, later)), ("in 30 s".into(), "30 s ago".into()));
    }

    #[test]
    fn sizes_keep_two_digits_at_least() {
        let table =
            [(0, "0 B"), (10_239, "10,239 B"), (10_240, "10 KiB"), (10_485_760, "10 MiB"), (1 << 50, "1,024 TiB")];
        for (size, text) in table {
            assert_eq!(bytes(size), text);
        }
    }

    #[test]
    fn instants_are_rfc_3339_with_microseconds() {
        assert_eq!(rfc3339(Timestamp::from_micros(1_767_225_600_000_001)), "2026-01-01T00:00:00.000001Z");
    }

    #[test]
    fn names_are_quoted_for_the_shell_when_they_need_it() {
        let table = [("orders", "orders"), ("it's new", r"'it'\''s new'"), ("-x", "'-x'"), ("a$b", "'a$b'")];
        for (name, word) in table {
            assert_eq!(shell_word(name), word);
        }
    }

    #[test]
    fn exact_durations_lose_nothing() {
        for (millis, text) in
            [(0, "0 s"), (604_800_000, "7 d"), (90_000, "90 s"), (5_400_000, "90 min"), (1_500, "1500 ms")]
        {
            assert_eq!(exact(Duration::from_millis(millis)), text);
        }
        assert_eq!(exact(Duration::from_micros(1_001)), "1001 µs");
    }

    #[test]
    fn text_of_others_is_cut_and_cannot_control_a_terminal() {
        assert_eq!(excerpt("paid\n", 10), "paid");
        assert_eq!(excerpt("a\tb\u{1b}[2J", 40), "a\\tb\\u{1b}[2J");
        assert_eq!(excerpt("0123456789x", 10), "012345678…");
        assert_eq!(excerpt("01234567\u{1b}", 10), "01234567\\…");
        assert_eq!(harmless("one\ntwo\r\u{202e}"), "one\ntwo\\r\\u{202e}");
        assert_eq!(shown("a\u{202e}b\u{2028}c\u{feff}\u{1f600}é"), "a\\u{202e}b\\u{2028}c\\u{feff}\u{1f600}é");
    }

    #[test]
    fn durations_are_a_number_and_a_unit() {
        let parse = |text| parse_duration(text, "ttl", "a ttl", "allowed are …");
        for (text, millis) in [("500ms", 500), ("30s", 30_000), ("1h 30m", 5_400_000), ("0s", 0)] {
            assert_eq!(parse(text).unwrap(), Duration::from_millis(millis), "{text}");
        }
        for (text, why) in [
            ("", "it is empty"),
            ("30", "a unit is missing"),
            ("-1s", "it is not a number and a unit"),
            ("soon", "it is not a number and a unit"),
            ("3 parsecs", "`parsecs` is no unit of time"),
            ("99999999999999999999s", "it is too long"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), format!("cannot use `{text}` as a ttl: {why}"));
        }
    }
}
