//! B13: what happens where clocks are changed, written down by hand from the rules of the zones.

use fencepost_schedule::{Shift, Timetable};

use crate::{after, at, timetable};

/// The nominal times after an instant are these, forwards and backwards.
#[track_caller]
fn fires(spec: &str, zone: &str, since: &str, wanted: &[&str]) {
    let timetable = timetable(spec, zone);
    let wanted: Vec<_> = wanted.iter().map(|text| at(text)).collect();
    let found: Vec<_> = after(&timetable, at(since)).map(|nominal| nominal.at).take(wanted.len()).collect();
    assert_eq!(found, wanted, "{spec} in {zone}");
    let last = *wanted.last().unwrap();
    let mut back: Vec<_> = std::iter::successors(timetable.last_by(last), |next| before(&timetable, next.at))
        .map(|nominal| nominal.at)
        .take(wanted.len())
        .collect();
    back.reverse();
    assert_eq!(back, wanted, "{spec} in {zone}, backwards");
    assert_eq!(timetable.count(at(since), last), wanted.len() as u64, "{spec} in {zone}, counted");
}

fn before(timetable: &Timetable, at: fencepost_core::Timestamp) -> Option<fencepost_schedule::Nominal> {
    timetable.last_by(fencepost_core::Timestamp::from_micros(at.as_micros() - 1))
}

#[track_caller]
fn note(spec: &str, zone: &str, since: &str, wanted: &str) {
    let shown = timetable(spec, zone).preview(at(since), 1);
    assert_eq!(shown[0].to_string(), wanted);
}

#[test]
fn b13_a_gap_fires_once_after_it() {
    // Berlin goes from 02:00 to 03:00 at 01:00 UTC.
    fires(
        "30 2 * * *",
        "Europe/Berlin",
        "2026-03-28T12:00:00Z",
        &["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z", "2026-03-31T00:30:00Z"],
    );
    fires("15 2-3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", &["2026-03-29T01:00:00Z", "2026-03-29T01:15:00Z"]);
    fires(
        "*/30 * * * *",
        "Europe/Berlin",
        "2026-03-29T00:00:00Z",
        &["2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:00:00Z"],
    );
    fires(
        "5,10,20 2 * * *",
        "Europe/Berlin",
        "2026-03-29T00:00:00Z",
        &["2026-03-29T01:00:00Z", "2026-03-30T00:05:00Z"],
    );
    // New York goes from 02:00 to 03:00 at 07:00 UTC.
    fires("30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", &["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"]);
    // Lord Howe goes from 02:00 to 02:30 at 15:30 UTC.
    fires(
        "15 2 * * *",
        "Australia/Lord_Howe",
        "2026-10-02T16:00:00Z",
        &["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"],
    );
    fires(
        "0,15,30,45 2 * * *",
        "Australia/Lord_Howe",
        "2026-10-03T15:29:59Z",
        &["2026-10-03T15:30:00Z", "2026-10-03T15:45:00Z", "2026-10-04T15:00:00Z"],
    );
    // Sao Paulo went from 00:00 to 01:00 at 03:00 UTC: no midnight, but a day.
    fires("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", &["2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"]);
    fires("2018-11-04T00:30:00", "America/Sao_Paulo", "2018-11-03T12:00:00Z", &["2018-11-04T03:00:00Z"]);
}

#[test]
fn b13_an_overlap_fires_once_the_first_time() {
    // Berlin goes from 03:00 back to 02:00 at 01:00 UTC.
    fires("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
    fires(
        "*/30 * * * *",
        "Europe/Berlin",
        "2026-10-24T23:45:00Z",
        &["2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z", "2026-10-25T02:30:00Z"],
    );
    // Seen from within the second time.
    fires("*/30 * * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", &["2026-10-25T02:00:00Z", "2026-10-25T02:30:00Z"]);
    fires("0 * * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", &["2026-10-25T02:00:00Z", "2026-10-25T03:00:00Z"]);
    fires("2026-10-25T02:30:00", "Europe/Berlin", "2026-10-24T12:00:00Z", &["2026-10-25T00:30:00Z"]);
    // New York goes from 02:00 back to 01:00 at 06:00 UTC.
    fires("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", &["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"]);
    // Lord Howe goes from 02:00 back to 01:30 at 15:00 UTC.
    fires(
        "45 1 * * *",
        "Australia/Lord_Howe",
        "2026-04-04T12:00:00Z",
        &["2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"],
    );
    // Sao Paulo went from 00:00 back to 23:00 of the day before at 02:00 UTC.
    fires(
        "30 23 * * *",
        "America/Sao_Paulo",
        "2018-02-17T12:00:00Z",
        &["2018-02-18T01:30:00Z", "2018-02-19T02:30:00Z"],
    );
    fires("0 0 * * *", "America/Sao_Paulo", "2018-02-17T12:00:00Z", &["2018-02-18T03:00:00Z", "2018-02-19T03:00:00Z"]);
}

#[test]
fn b13_a_day_that_a_zone_skipped_fires_once_after_it() {
    // Apia went from the end of 2011-12-29 to 2011-12-31 at 10:00 UTC.
    fires(
        "0 12 * * *",
        "Pacific/Apia",
        "2011-12-29T12:00:00Z",
        &["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"],
    );
    fires("0 0 30 12 *", "Pacific/Apia", "2011-01-01T00:00:00Z", &["2011-12-30T10:00:00Z", "2012-12-29T10:00:00Z"]);
    fires(
        "30 * * * *",
        "Pacific/Apia",
        "2011-12-30T09:00:00Z",
        &["2011-12-30T09:30:00Z", "2011-12-30T10:00:00Z", "2011-12-30T10:30:00Z"],
    );
    // Kwajalein went from the end of 1993-08-20 to 1993-08-22 at 12:00 UTC.
    fires("0 9 21 8 *", "Pacific/Kwajalein", "1993-08-01T00:00:00Z", &["1993-08-21T12:00:00Z", "1994-08-20T21:00:00Z"]);
}

#[test]
fn an_interval_does_not_know_clocks() {
    fires(
        "@every 12h",
        "Europe/Berlin",
        "2026-03-28T13:00:00Z",
        &["2026-03-29T00:00:00Z", "2026-03-29T12:00:00Z", "2026-03-30T00:00:00Z"],
    );
    fires(
        "@every 30m",
        "Europe/Berlin",
        "2026-10-25T00:00:00Z",
        &["2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z"],
    );
}

#[test]
fn a_shift_is_told() {
    let shift = |spec, zone, since| timetable(spec, zone).next_after(at(since)).unwrap().shift;
    let Shift::AfterGap { wanted } = shift("30,45 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z") else { panic!() };
    assert_eq!(wanted.to_string(), "2026-03-29T02:30:00");
    // 03:00 is there and wanted, so what was skipped before it moves nothing.
    assert_eq!(shift("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:30:00Z"), Shift::None);
    assert_eq!(shift("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z"), Shift::Overlap);
    assert_eq!(shift("30 1 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z"), Shift::None);
    assert_eq!(shift("0 3 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z"), Shift::None);
    assert_eq!(shift("@every 1h", "Europe/Berlin", "2026-10-25T00:00:00Z"), Shift::None);
    let last = timetable("30,45 2 * * *", "Europe/Berlin").last_by(at("2026-03-29T12:00:00Z")).unwrap();
    assert_eq!(last.shift, Shift::AfterGap { wanted });
}

#[test]
fn a_preview_says_what_clocks_do() {
    note("0 8 * * *", "Asia/Kathmandu", "2026-01-01T00:00:00Z", "2026-01-01T08:00:00+05:45 +0545");
    note("0 8 * * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T08:00:00+00:00 UTC");
    note(
        "45 1 * * *",
        "Australia/Lord_Howe",
        "2026-04-04T12:00:00Z",
        "2026-04-05T01:45:00+11:00 +11 (the clocks show 2026-04-05T01:45:00 twice, and it fires the first time)",
    );
    note(
        "0 12 30 12 *",
        "Pacific/Apia",
        "2011-12-01T00:00:00Z",
        "2011-12-31T00:00:00+14:00 +14 (the clocks skip 2011-12-30T12:00:00, so it fires at the first instant after the gap)",
    );
    assert_eq!(timetable("@at 2026-06-01T00:00:00Z", "UTC").preview(at("2026-01-01T00:00:00Z"), 5).len(), 1);
    assert_eq!(timetable("@daily", "UTC").preview(at("2026-01-01T00:00:00Z"), 5).len(), 5);
}
