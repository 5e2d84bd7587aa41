//! Schedules as engines keep them, there and back.

use std::error::Error as _;
use std::time::Duration;

use fencepost_core::schedule::{Misfire, ScheduleDefinition};
use fencepost_core::{Key, Kind, MAX_PAYLOAD, MessageKind};
use fencepost_schedule::{Schedule, Zone};

use crate::{at, put, schedule};

#[test]
fn a_schedule_is_read_as_it_was_made() {
    let made = schedule("0 8 * * MON-FRI")
        .zone(Zone::parse("europe/berlin").unwrap())
        .kind(MessageKind::new("report").unwrap())
        .key(Key::new("customer-7").unwrap())
        .payload("{}")
        .unwrap()
        .misfire(Misfire::All(7))
        .unwrap()
        .jitter(Duration::from_nanos(90_000_000_999))
        .unwrap()
        .within(Some(at("2026-01-01T00:00:00Z")), Some(at("2027-01-01T00:00:00Z")))
        .unwrap();
    let definition = made.definition();
    definition.check().unwrap();
    assert_eq!((definition.spec.as_str(), definition.zone.as_str()), ("0 8 * * 1-5", "Europe/Berlin"));
    assert_eq!(definition.jitter, Duration::from_secs(90));
    assert_eq!(Schedule::read(definition).unwrap(), made);
}

#[test]
fn what_is_out_of_range_is_refused() {
    let kind = |made: fencepost_core::Result<Schedule>| made.unwrap_err().kind();
    assert_eq!(kind(schedule("@daily").payload(vec![0; MAX_PAYLOAD + 1])), Kind::LimitExceeded);
    assert_eq!(kind(schedule("@daily").misfire(Misfire::All(0))), Kind::InvalidInput);
    assert_eq!(kind(schedule("@daily").misfire(Misfire::All(10_001))), Kind::InvalidInput);
    let (early, late) = (at("2026-01-01T00:00:00Z"), at("2026-01-02T00:00:00Z"));
    assert_eq!(kind(schedule("@daily").within(Some(late), Some(early))), Kind::InvalidInput);
    assert_eq!(kind(schedule("@daily").within(Some(late), Some(late))), Kind::InvalidInput);
    assert!(schedule("@daily").within(Some(early), Some(late)).is_ok());
}

#[test]
fn b11_a_schedule_that_a_newer_version_put_is_an_error_that_says_so_and_stops() {
    let stored = schedule("@daily").definition().clone();
    for newer in [
        ScheduleDefinition { spec: "@lunar full".into(), ..stored.clone() },
        ScheduleDefinition { zone: "Mars/Olympus".into(), ..stored.clone() },
        ScheduleDefinition { jitter: Duration::from_secs(1_000_000), ..stored.clone() },
    ] {
        let error = Schedule::read(&newer).unwrap_err();
        assert_eq!((error.kind(), error.fact("schedule")), (Kind::Unsupported, Some("s")));
        assert!(error.source().is_some() && error.hint().unwrap().contains("newer"), "{error}");
        let mut status = put(&schedule("@daily"), at("2026-01-01T00:00:00Z"));
        status.definition = newer;
        let tick = fencepost_schedule::tick(&status, at("2026-02-01T00:00:00Z"));
        assert_eq!((&tick.problem, tick.fires.len(), tick.next), (&Some(error.to_string()), 0, None));
        fencepost_core::schedule::Tick::check(&[tick]).unwrap();
    }
}

#[test]
fn a_schedule_that_is_written_otherwise_is_the_same() {
    let definition = |spec| schedule(spec).definition().clone();
    assert_eq!(definition("00  08 * * mon-FRI"), definition("0 8 * * 1-5"));
    assert_eq!(definition("@every 60s"), definition("@every 1m"));
    assert_ne!(definition("@every 61s"), definition("@every 1m"));
}
