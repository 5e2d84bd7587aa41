//! What is a spec or a zone and what is not, and where a refusal points.

use fencepost_core::{Error, Kind};
use fencepost_schedule::{Spec, Zone};
use fencepost_test_support::Random;

use crate::{after, at, timetable};

#[test]
fn specs_print_as_canonical_text_and_are_equal_by_it() {
    for (text, canonical) in [
        ("* * * * *", "* * * * *"),
        ("  05\t08  *  *  * ", "5 8 * * *"),
        ("*/15 0-23/6 ? JAN,jul Sun", "*/15 0-23/6 * 1,7 0"),
        ("0 0 L * *", "0 0 L * *"),
        ("0 0 l,15,1 * *", "0 0 1,15,L * *"),
        ("30,0,30 8 * * 7", "0,30 8 * * 0"),
        ("0 8 * * sat-sun", "0 8 * * 6-7"),
        ("0 8 * * 0-7", "0 8 * * 0-7"),
        ("5-5 8 * * 7-7", "5 8 * * 0"),
        ("*/1 *,3 * * *", "* * * * *"),
        ("0 0 0 * * *", "0 0 * * *"),
        ("*/10 * * * * *", "*/10 * * * * *"),
        ("@hourly", "0 * * * *"),
        ("@Midnight", "0 0 * * *"),
        ("@daily", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@annually", "0 0 1 1 *"),
        ("@yearly", "0 0 1 1 *"),
        ("@every 90s", "@every 1m30s"),
        ("@EVERY  1h 30 min", "@every 1h30m"),
        ("@every 1500ms", "@every 1s500ms"),
        ("@every 2w", "@every 14d"),
        ("@every 366d", "@every 366d"),
        ("2026-12-24T18:00:00Z", "@at 2026-12-24T18:00:00Z"),
        ("@at 2026-12-24 18:00:30+01:00", "@at 2026-12-24T17:00:30Z"),
        ("2026-12-24t18:00", "@at 2026-12-24T18:00:00"),
    ] {
        let spec = Spec::parse(text).unwrap();
        assert_eq!(spec.to_string(), canonical, "{text}");
        assert_eq!(Spec::parse(canonical).unwrap(), spec, "{text}");
        assert_eq!(Spec::parse(canonical).unwrap().to_string(), canonical);
    }
    assert_ne!(Spec::parse("0 0 1-31 * 1").unwrap(), Spec::parse("0 0 * * 1").unwrap());
}

#[track_caller]
fn refused(text: &str) -> Error {
    let error = Spec::parse(text).unwrap_err();
    assert_eq!((error.kind(), error.fact("argument")), (Kind::InvalidInput, Some("spec")), "{text}: {error}");
    error
}

#[test]
fn a_refusal_points_at_its_place() {
    for (text, column, field, value, hint) in [
        ("61 * * * *", "1", "minute", "61", "allowed are 0 to 59"),
        ("* 24 * * *", "3", "hour", "24", "0 to 23"),
        ("0 0 0 * *", "5", "day of the month", "0", "1 to 31"),
        ("0 0 1,32 * *", "7", "day of the month", "32", "1 to 31"),
        ("0 0 * 13 *", "7", "month", "13", "`jan` to `dec`"),
        ("0 0 * * 8", "9", "day of the week", "8", "0 to 7"),
        ("0 0 * * mon-fry", "13", "day of the week", "fry", "`sun` to `sat`"),
        ("0 0 * monday *", "7", "month", "monday", "1 to 12"),
        ("60 0 0 * * *", "1", "second", "60", "0 to 59"),
        ("*/0 * * * *", "3", "minute", "0", "steps of 1 to 59"),
        ("*/90 * * * *", "3", "minute", "90", "`@every 90m`"),
        ("0 */x * * *", "5", "hour", "x", "steps of 1 to 23"),
        ("5/15 * * * *", "1", "minute", "5/15", "`5-59/15`"),
        ("0 22-4 * * *", "3", "hour", "22-4", "`22-23,0-4`"),
        ("0 0 * * fri-mon", "9", "day of the week", "fri-mon", "`5-6,0-1`"),
        ("1,,2 * * * *", "3", "minute", "", "0 to 59"),
        ("-5 * * * *", "1", "minute", "", "0 to 59"),
        ("+5 * * * *", "1", "minute", "+5", "0 to 59"),
        ("ä ü * * *", "1", "minute", "ä", "0 to 59"),
        ("0\u{a0}ü * * *", "3", "hour", "ü", "0 to 23"),
        ("0 0 * * mon#2", "9", "day of the week", "mon#2", "nominal time"),
        ("0 0 15W * *", "5", "day of the month", "15W", "nominal time"),
        ("0 0 L-3 * *", "5", "day of the month", "L-3", "nominal time"),
        ("0 0 * * 5L", "9", "day of the week", "5L", "nominal time"),
        ("0 0 * * L", "9", "day of the week", "L", "nominal time"),
        ("CRON_TZ=UTC 0 0 * * *", "1", "zone", "CRON_TZ=UTC", "beside the spec"),
        ("@reboot", "1", "name", "@reboot", "@hourly"),
        ("@daily 5", "1", "name", "@daily", "@hourly"),
        ("@every 5", "8", "interval", "5", "30s"),
        ("@every 5x", "9", "interval", "x", "30s"),
        ("@every 1.5h", "9", "interval", ".", "30s"),
        ("@every h", "8", "interval", "h", "30s"),
        ("@every 999ms", "8", "interval", "999ms", "1 s to 366 days"),
        ("@every 367d", "8", "interval", "367d", "1 s to 366 days"),
        ("@every 99999999999999999999s", "8", "interval", "99999999999999999999s", "1 s to 366 days"),
        ("@at noon", "5", "year", "noon", "2026-12-24"),
        ("2026-13-01T00:00:00Z", "6", "month", "13", "01 to 12"),
        ("2026-02-29T00:00:00Z", "9", "day", "29", "2026-12-24"),
        ("2026-02-01T24:00:00Z", "12", "hour", "24", "00 to 23"),
        ("2026-02-01T23:00:60Z", "18", "second", "60", "00 to 59"),
        ("2026-02-01T23:00:00.5Z", "20", "second", ".5Z", "whole seconds"),
        ("2026-02-01T23:00:00Zulu", "21", "time", "ulu", "2026-12-24"),
        ("2026-02-01", "11", "time", "", "2026-12-24"),
        ("1969-02-01T00:00:00Z", "1", "year", "1969", "1970 to 9999"),
        ("1970-01-01T00:00:00+01:00", "1", "time", "1970-01-01T00:00:00+01:00", "1970"),
    ] {
        let error = refused(text);
        let found = ["column", "field", "value"].map(|fact| error.fact(fact).unwrap_or("none"));
        assert_eq!(found, [column, field, value], "{text}: {error}");
        assert!(error.hint().is_some_and(|found| found.contains(hint)), "{text}: {:?}", error.hint());
    }
    assert_eq!(
        refused("0 0 * * mon-fry").to_string(),
        "cannot use `0 0 * * mon-fry` as a schedule: day of the week `fry` at column 13 is neither a number nor a name"
    );
}

#[test]
fn what_a_refusal_tells_to_write_is_what_was_meant() {
    for (text, written, meant) in [
        ("0 22-4 * * *", "22-23,0-4", "0 22,23,0,1,2,3,4 * * *"),
        ("0 20-5/3 * * *", "20,23,2,5", "0 20,23,2,5 * * *"),
        ("0 0 25-5/3 * *", "25,28,31,3", "0 0 25,28,31,3 * *"),
        ("0 0 * nov-feb/2 *", "11,1", "0 0 * 11,1 *"),
        ("0 0 * * 5-1/2", "5,0", "0 0 * * 5,0"),
        ("0 0 * * 7-1", "0-1", "0 0 * * 0,1"),
        ("0 0 * * 7-3/2", "0-3/2", "0 0 * * 0,2"),
        ("0 0 * * 7/2", "0-6/2", "0 0 * * 0,2,4,6"),
    ] {
        let error = refused(text);
        let hint = error.hint().unwrap();
        assert!(hint.contains(&format!("`{written}`")), "{text}: {hint}");
        let instead = text.replace(error.fact("value").unwrap(), written);
        let fires = |spec: &str| {
            let timetable = timetable(spec, "UTC");
            after(&timetable, at("2026-01-01T00:00:00Z")).map(|nominal| nominal.at).take(100).collect::<Vec<_>>()
        };
        assert_eq!(fires(&instead), fires(meant), "{text}");
    }
}

#[test]
fn a_text_that_is_wrong_as_a_whole_is_refused() {
    for (text, why) in [
        ("", "it is blank"),
        (" \n", "it is blank"),
        ("*", "it has 1 field"),
        ("0 8 * *", "it has 4 fields"),
        ("0 0 8 * * * 2026", "it has 7 fields"),
        ("@every", "the interval is missing"),
    ] {
        let error = refused(text);
        assert_eq!(error.to_string(), format!("cannot use `{}` as a schedule: {why}", text.trim()));
        assert!(error.hint().is_some());
    }
    let long = format!("{} 0 * * *", "0,".repeat(600));
    assert_eq!(Spec::parse(&long).unwrap_err().kind(), Kind::LimitExceeded);
}

#[test]
fn a_spec_that_never_fires_is_refused() {
    for text in ["0 0 31 2 *", "0 0 30 feb ?", "0 0 31 4,6,9,11 *", "0 0 0 31 feb *"] {
        assert!(refused(text).to_string().ends_with("it never fires"), "{text}");
    }
    for (text, first) in [
        ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
        // A day of the week is enough, and every day of the month is one.
        ("0 0 31 2 mon", "2026-02-02T00:00:00Z"),
        // Both: the 29th of February is a Sunday in 2032, and February begins with one in 2026.
        ("0 0 29 2 */6", "2032-02-29T00:00:00Z"),
        ("0 0 */31 2 0", "2026-02-01T00:00:00Z"),
        ("0 0 L 2 *", "2026-02-28T00:00:00Z"),
    ] {
        assert_eq!(timetable(text, "UTC").next_after(at("2026-01-31T12:00:00Z")).unwrap().at, at(first), "{text}");
    }
}

#[test]
fn days_match_either_field_unless_a_star_is_in_one() {
    let days = |spec| -> Vec<i64> {
        let timetable = timetable(spec, "UTC");
        let february = after(&timetable, at("2026-01-31T23:59:59Z")).map(|nominal| nominal.at);
        let first = at("2026-02-01T00:00:00Z");
        february
            .take_while(|at| *at < "2026-03-01T00:00:00Z".parse().unwrap())
            .map(|at| at.since(first).as_secs() as i64 / 86_400 + 1)
            .collect()
    };
    // 2026-02-02 is a Monday.
    assert_eq!(days("0 0 13 * 1"), [2, 9, 13, 16, 23]);
    assert_eq!(days("0 0 13 * *"), [13]);
    assert_eq!(days("0 0 ? * 1"), [2, 9, 16, 23]);
    assert_eq!(days("0 0 */2 * 1"), [9, 23]);
    assert_eq!(days("0 0 1-31/2 * 1").len(), 16);
    assert_eq!(days("0 0 L * 1"), [2, 9, 16, 23, 28]);
    assert_eq!(days("0 0 1-31 * 1").len(), 28);
}

#[test]
fn time_ends_with_the_year_9999() {
    let last = at("9999-12-31T23:59:59Z");
    for (spec, wanted) in [("* * * * *", "9999-12-31T23:59:00Z"), ("* * * * * *", "9999-12-31T23:59:59Z")] {
        for zone in ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"] {
            let timetable = timetable(spec, zone);
            assert_eq!(timetable.next_after(last), None, "{spec} in {zone}");
            assert!(timetable.last_by(last).is_some_and(|nominal| nominal.at <= at(wanted)), "{spec} in {zone}");
        }
        assert_eq!(timetable(spec, "UTC").last_by(last).unwrap().at, at(wanted));
    }
    for end in [i64::MIN, i64::MIN + 1, -1, i64::MAX - 1, i64::MAX].map(fencepost_core::Timestamp::from_micros) {
        for spec in
            ["* * * * * *", "@every 1s", "@every 366d", "9999-12-31T23:59:59", "1970-01-01T00:00:00Z", "0 0 29 2 *"]
        {
            for zone in ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Europe/Berlin"] {
                let timetable = timetable(spec, zone);
                let (next, last) = (timetable.next_after(end), timetable.last_by(end));
                assert!(next.is_none_or(|nominal| nominal.at > end), "{spec} in {zone} after {end:?}: {next:?}");
                assert!(last.is_none_or(|nominal| nominal.at <= end), "{spec} in {zone} by {end:?}: {last:?}");
            }
        }
    }
    let daily = timetable("0 0 * * *", "UTC");
    let all =
        daily.count(fencepost_core::Timestamp::from_micros(i64::MIN), fencepost_core::Timestamp::from_micros(i64::MAX));
    assert_eq!(all, 2_932_897);
}

#[test]
fn zones_are_found_and_close_names_offered() {
    for (text, name) in
        [("UTC", "UTC"), ("utc", "UTC"), ("america/new_york", "America/New_York"), ("Asia/Kolkata", "Asia/Kolkata")]
    {
        assert_eq!(Zone::parse(text).unwrap().name(), name);
    }
    for (text, close) in
        [("Berlin", "`Europe/Berlin`"), ("Europe/Berln", "`Europe/Berlin`"), ("New York", "`America/New_York`")]
    {
        let error = Zone::parse(text).unwrap_err();
        assert_eq!(
            (error.kind(), error.fact("argument"), error.fact("value")),
            (Kind::InvalidInput, Some("zone"), Some(text))
        );
        assert!(error.hint().unwrap().contains(close), "{text}: {:?}", error.hint());
    }
    for text in ["", "\u{202e}", "x".repeat(10_000).as_str()] {
        let error = Zone::parse(text).unwrap_err();
        assert!(error.to_string().len() < 200 && !error.to_string().contains('\u{202e}'), "{error}");
    }
}

#[test]
fn no_text_makes_it_panic() {
    const PIECES: [&str; 52] = [
        "*",
        "?",
        "/",
        "-",
        ",",
        "L",
        "W",
        "#",
        " ",
        "  ",
        "\t",
        "\n",
        "0",
        "1",
        "5",
        "7",
        "12",
        "23",
        "29",
        "31",
        "59",
        "60",
        "99",
        "366",
        "99999999999999999999",
        "jan",
        "FEB",
        "sun",
        "Mon",
        "@",
        "@every",
        "@at",
        "@daily",
        "ms",
        "s",
        "m",
        "h",
        "d",
        "w",
        "T",
        "Z",
        ":",
        "+",
        ".",
        "2026",
        "9999",
        "-02-",
        "2026-03-29T02:30:00",
        "ä",
        "\u{202e}",
        "𝟙",
        "\0",
    ];
    let mut random = Random::seeded(7);
    let mut taken = 0;
    for _ in 0..60_000 {
        let count = 1 + random.below(14);
        let mut text = String::new();
        for _ in 0..count {
            text.push_str(PIECES[random.below(PIECES.len() as u64) as usize]);
            if random.below(2) == 0 {
                text.push(' ');
            }
        }
        match Spec::parse(&text) {
            Ok(spec) => {
                taken += 1;
                assert_eq!(Spec::parse(spec.as_str()).unwrap(), spec, "{text:?}");
                timetable(spec.as_str(), "Europe/Berlin").preview(at("2026-03-28T00:00:00Z"), 3);
            }
            Err(error) => {
                assert!(!error.to_string().chars().any(char::is_control) && error.to_string().len() < 1_500, "{error}");
                assert!(error.hint().is_some(), "{error}");
                let column = error.fact("column").map_or(1, |column| column.parse().unwrap());
                assert!((1..=text.chars().count() + 1).contains(&column), "{text:?}: {error}");
            }
        }
    }
    assert!(taken > 100, "{taken}");
}
