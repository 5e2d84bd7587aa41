//! Jitter follows from name and nominal time, stays within its bound, and keeps nominal times in their order.

use std::collections::BTreeSet;
use std::time::Duration;

use fencepost_core::schedule::NextFire;
use fencepost_core::{Kind, QueueName, ScheduleName, Timestamp};
use fencepost_schedule::{Schedule, Spec};

use crate::{at, schedule};

fn next(name: &str, spec: &str, jitter: Duration, after: Timestamp) -> NextFire {
    let name = ScheduleName::new(name).unwrap();
    let schedule =
        Schedule::new(name, Spec::parse(spec).unwrap(), QueueName::new("q").unwrap()).jitter(jitter).unwrap();
    schedule.next_after(at("2026-01-01T00:00:00Z"), after).unwrap()
}

#[test]
fn jitter_is_the_same_for_everybody() {
    let hour = Duration::from_secs(3_600);
    let report = next("report", "0 8 * * *", hour, at("2026-01-01T00:00:00Z"));
    assert_eq!(report.nominal_at, at("2026-01-01T08:00:00Z"));
    // The first 64 bits of SHA-256("report" and the nominal time) as a fraction of an hour and a microsecond.
    assert_eq!(report.due_at.since(report.nominal_at), Duration::from_micros(41_667_066));
    let dues: BTreeSet<_> =
        (0..100).map(|n| next(&format!("s{n}"), "0 8 * * *", hour, at("2026-01-01T00:00:00Z")).due_at).collect();
    assert_eq!(dues.len(), 100, "schedules are spread");
    let none = next("report", "0 8 * * *", Duration::ZERO, at("2026-01-01T00:00:00Z"));
    assert_eq!(none.due_at, none.nominal_at);
}

#[test]
fn jitter_is_within_its_bound_and_before_the_next_nominal_time() {
    for (spec, jitter) in [
        ("* * * * *", Duration::from_secs(24 * 60 * 60)),
        ("* * * * * *", Duration::from_secs(60)),
        ("0 8 * * *", Duration::from_secs(60)),
        ("@every 1s", Duration::from_secs(1)),
        ("@every 10s", Duration::from_micros(1)),
    ] {
        let mut latest = Duration::ZERO;
        let mut now = at("2026-01-01T00:00:00Z");
        for _ in 0..300 {
            let fire = next("s", spec, jitter, now);
            let following = next("s", spec, jitter, fire.nominal_at);
            let delay = fire.due_at.since(fire.nominal_at);
            assert!(fire.due_at >= fire.nominal_at && delay <= jitter, "{spec}: {delay:?}");
            assert!(fire.due_at < following.nominal_at, "{spec}: {delay:?}");
            latest = latest.max(delay);
            now = fire.nominal_at;
        }
        let room = next("s", spec, Duration::ZERO, now).nominal_at.since(now).min(jitter);
        assert!(latest >= room.mul_f64(0.9), "{spec}: of {room:?} nothing after {latest:?} is used");
    }
}

#[test]
fn jitter_out_of_range_is_refused() {
    let day = Duration::from_secs(24 * 60 * 60);
    let refused = |spec, jitter| {
        let error = schedule(spec).jitter(jitter).unwrap_err();
        assert_eq!((error.kind(), error.fact("argument")), (Kind::InvalidInput, Some("jitter")));
        error.hint().unwrap().to_owned()
    };
    assert!(refused("0 8 * * *", day + Duration::from_micros(1)).contains("1 day"));
    assert!(refused("@every 366d", Duration::MAX).contains("1 day"));
    assert!(refused("@every 30s", Duration::from_secs(31)).contains("`@every 30s`"));
    assert!(schedule("0 8 * * *").jitter(day).is_ok());
    assert!(schedule("@every 30s").jitter(Duration::from_secs(30)).is_ok());
}
