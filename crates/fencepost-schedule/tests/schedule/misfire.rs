//! B12: what fires of the nominal times that nobody fired, and how much work that is.

use std::time::{Duration, Instant};

use fencepost_core::schedule::{Fired, Misfire, NextFire, ScheduleDefinition, ScheduleStatus};
use fencepost_core::{MessageId, Timestamp};
use fencepost_schedule::{GRACE, Schedule, Spec, Timetable};
use fencepost_test_support::Random;

use crate::{after, at, put, schedule, tick_after};

const MINUTE: Duration = Duration::from_secs(60);

/// The minutes of the nominal times that fire, the number of those that are left out, and the minute that comes next.
fn after_minutes(schedule: &Schedule, minutes: u32) -> (Vec<u64>, u64, Option<u64>) {
    let since = at("2026-01-01T00:00:00Z");
    let tick = tick_after(&put(schedule, since), since, MINUTE * minutes + Duration::from_millis(5));
    let minute = |at: Timestamp| at.since(since).as_secs() / 60;
    (tick.fires.into_iter().map(minute).collect(), tick.missed, tick.next.map(|next| minute(next.nominal_at)))
}

#[test]
fn b12_down_for_ten_intervals() {
    for spec in ["@every 1m", "* * * * *"] {
        let with = |misfire| after_minutes(&schedule(spec).misfire(misfire).unwrap(), 10);
        assert_eq!(with(Misfire::Skip), (vec![], 10, Some(11)), "{spec}");
        assert_eq!(with(Misfire::One), (vec![10], 9, Some(11)), "{spec}");
        assert_eq!(with(Misfire::ALL), ((1..=10).collect(), 0, Some(11)), "{spec}");
        assert_eq!(with(Misfire::All(3)), (vec![8, 9, 10], 7, Some(11)), "{spec}");
        assert_eq!(with(Misfire::All(10)), ((1..=10).collect(), 0, Some(11)), "{spec}");
    }
    assert_eq!(after_minutes(&schedule("@every 1m"), 10), (vec![10], 9, Some(11)), "one unless said");
}

#[test]
fn what_is_due_alone_and_hardly_late_is_no_misfire() {
    let since = at("2026-01-01T00:00:00Z");
    let hourly = |misfire, late| {
        let status = put(&schedule("@hourly").misfire(misfire).unwrap(), since);
        let tick = tick_after(&status, since, MINUTE * 60 + late);
        (tick.fires.len(), tick.missed)
    };
    for misfire in [Misfire::Skip, Misfire::One, Misfire::ALL] {
        assert_eq!(hourly(misfire, Duration::ZERO), (1, 0));
        assert_eq!(hourly(misfire, GRACE - Duration::from_micros(1)), (1, 0));
    }
    assert_eq!(hourly(Misfire::Skip, GRACE), (0, 1));
    assert_eq!(hourly(Misfire::One, GRACE), (1, 0));
    // Two are due: the first is a misfire, however little late.
    let status = put(&schedule("@every 1s").misfire(Misfire::Skip).unwrap(), since);
    assert_eq!(tick_after(&status, since, Duration::from_secs(2)).missed, 2);
}

#[test]
fn nothing_fires_before_it_is_due() {
    let since = at("2026-01-01T00:00:00Z");
    let schedule = schedule("0 * * * *").jitter(MINUTE * 30).unwrap();
    let status = put(&schedule, since);
    let next = status.next.unwrap();
    let due = next.due_at.since(since);
    assert!(next.due_at > next.nominal_at, "this name and time have some jitter");
    let early = tick_after(&status, since, due - Duration::from_micros(1));
    assert_eq!((early.fires, early.missed, early.next), (vec![], 0, Some(next)));
    let on_time = tick_after(&status, since, due);
    assert_eq!((on_time.fires, on_time.missed), (vec![next.nominal_at], 0));
    // Several hours later, at a nominal time that is not due before its jitter: only those before it count.
    let mut waiting = 0;
    for hour in 2..26 {
        let tick = tick_after(&status, since, MINUTE * 60 * hour);
        let last = since + MINUTE * 60 * hour;
        let next = tick.next.unwrap();
        if next.nominal_at == last {
            assert!(next.due_at > last);
            assert_eq!((tick.fires, tick.missed), (vec![since + MINUTE * 60 * (hour - 1)], u64::from(hour) - 2));
            waiting += 1;
        }
    }
    assert!(waiting > 5, "{waiting}");
}

#[test]
fn bounds_and_single_instants_end() {
    let since = at("2026-01-01T00:00:00Z");
    let until = schedule("@every 1m").misfire(Misfire::ALL).unwrap().within(None, Some(since + MINUTE * 4)).unwrap();
    assert_eq!(after_minutes(&until, 10), (vec![1, 2, 3], 0, None));
    let from = schedule("@every 1m").misfire(Misfire::ALL).unwrap().within(Some(since + MINUTE * 8), None).unwrap();
    assert_eq!(after_minutes(&from, 10), (vec![8, 9, 10], 0, Some(11)), "an interval begins with its first bound");
    let once = schedule("2026-01-01T00:03:00Z");
    assert_eq!(after_minutes(&once, 10), (vec![3], 0, None));
    assert_eq!(after_minutes(&once.misfire(Misfire::Skip).unwrap(), 10), (vec![], 1, None));
    assert_eq!(schedule("2025-01-01T00:00:00Z").next_after(since, since), None);
    let paused = ScheduleStatus { next: None, ..put(&schedule("@every 1m"), since) };
    assert_eq!(tick_after(&paused, since, MINUTE).fires, []);
}

#[test]
fn work_does_not_grow_with_the_time_that_was_missed() {
    let since = at("2026-01-01T00:00:00Z");
    let years = Duration::from_secs(10 * 365 * 24 * 60 * 60);
    let all = Misfire::All(10_000);
    for (spec, missed) in [("@every 1s", 315_360_000), ("* * * * * *", 315_360_000 - 10 * 3_600)] {
        let began = Instant::now();
        let status = put(&schedule(spec).zone("Europe/Berlin".parse().unwrap()).misfire(all).unwrap(), since);
        let tick = tick_after(&status, since, years);
        assert_eq!((tick.fires.len(), tick.missed), (10_000, missed - 10_000), "{spec}");
        // A walk over them takes longer by far.
        assert!(began.elapsed() < Duration::from_secs(1), "{spec}: {:?}", began.elapsed());
    }
}

#[test]
fn a_next_time_that_the_rules_of_its_zone_no_longer_name_fires_all_the_same() {
    let since = at("2026-01-01T00:00:00Z");
    let mut status = put(&schedule("0 8 * * *").misfire(Misfire::ALL).unwrap(), since);
    let promised = at("2026-01-01T07:00:00Z");
    status.next = Some(NextFire { nominal_at: promised, due_at: promised });
    assert_eq!(tick_after(&status, since, MINUTE * 60 * 7).fires, [promised]);
    assert_eq!(tick_after(&status, since, MINUTE * 60 * 9).fires, [promised, at("2026-01-01T08:00:00Z")]);
}

/// Ticks come at random times, as leaders come and go; what they fire and leave out together is every nominal time once, in order.
#[test]
fn every_nominal_time_is_fired_or_missed_once() {
    let mut random = Random::seeded(12);
    let specs =
        ["@every 7s", "*/5 * * * *", "15,45 1-3 * * *", "0 0 1,15 * mon", "@daily", "* * * * * *", "30 2 * * *"];
    for round in 0..150 {
        let spec = specs[random.below(specs.len() as u64) as usize];
        let zone = ["UTC", "Europe/Berlin", "Australia/Lord_Howe"][random.below(3) as usize];
        let misfire = [Misfire::Skip, Misfire::One, Misfire::All(4), Misfire::All(1_000)][random.below(4) as usize];
        let jitter = Duration::from_secs(random.below(7));
        let schedule = schedule(spec).zone(zone.parse().unwrap()).misfire(misfire).unwrap().jitter(jitter).unwrap();
        let since = at("2026-03-27T00:00:00Z") + Duration::from_secs(random.below(86_400 * 365));
        let mut status = put(&schedule, since);
        let (mut now, mut fired, mut missed) = (since, Vec::new(), 0);
        for _ in 0..30 {
            let magnitude = random.below(38);
            now = now + Duration::from_micros(random.below(1 << magnitude));
            let tick = fencepost_schedule::tick(&status, now);
            assert!(tick.fires.len() as u64 <= 1.max(u64::from(most(misfire))), "{round}");
            let last = tick.fires.last().map(|at| Fired { nominal_at: *at, fired_at: now, message: MessageId::MAX });
            fired.extend(tick.fires.iter().copied());
            missed += tick.missed;
            status = ScheduleStatus { next: tick.next, last: last.or(status.last), ..status };
            fencepost_core::schedule::Tick::check(&[tick]).unwrap();
        }
        let end = status.next.unwrap().nominal_at;
        let timetable = schedule.timetable(since);
        let count = timetable.count(since, Timestamp::from_micros(end.as_micros() - 1));
        assert_eq!(fired.len() as u64 + missed, count, "round {round}: {spec} in {zone}, {misfire}, {jitter:?}");
        assert!(fired.windows(2).all(|pair| pair[0] < pair[1]), "round {round}");
        assert!(
            fired.iter().all(|at| timetable.last_by(*at).is_some_and(|nominal| nominal.at == *at)),
            "round {round}"
        );
        if misfire == Misfire::All(1_000) && missed == 0 {
            let all: Vec<_> = after(&timetable, since).map(|nominal| nominal.at).take_while(|at| *at < end).collect();
            assert_eq!(fired, all, "round {round}");
        }
    }
}

/// A tick beside the list of all nominal times: with bounds, with all the jitter there may be, at any time and right when one is due.
#[test]
fn a_tick_does_what_the_list_of_all_nominal_times_says() {
    let mut random = Random::seeded(21);
    let mut seen = [0; 4];
    for round in 0..600 {
        let (schedule, since) = drawn(&mut random);
        let definition = schedule.definition();
        let case = format!("round {round}: {definition:?} since {since:?}");
        let all = nominal_times(&schedule, since);
        let due: Vec<Timestamp> =
            all.iter().map(|at| schedule.next_after(since, before(*at)).unwrap().due_at).collect();
        for (at, due) in all.iter().zip(&due) {
            assert!(due >= at && due.since(*at) <= definition.jitter, "{case}: {at:?} is due at {due:?}");
        }
        assert!(due.iter().zip(&all[1.min(all.len())..]).all(|(due, next)| due < next), "{case}: {due:?}");
        let following = |done: usize| all.get(done).map(|at| NextFire { nominal_at: *at, due_at: due[done] });

        let mut status = put(&schedule, since);
        assert_eq!(status.next, following(0), "{case}");
        let (mut now, mut done) = (since, 0);
        for _ in 0..8 {
            let magnitude = random.below(40);
            let later = now + Duration::from_micros(random.below(1 << magnitude));
            now = if random.below(4) == 0 { due.get(done).map_or(later, |due| now.max(*due)) } else { later };
            let through = due.partition_point(|due| *due <= now);
            if through == LISTED {
                break;
            }
            let these = &all[done..through];
            let is_misfire = these.len() > 1 || (these.len() == 1 && now.since(due[done]) >= GRACE);
            let wanted = match definition.misfire {
                Misfire::Skip if is_misfire => 0,
                Misfire::One if is_misfire => 1,
                Misfire::All(cap) => these.len().min(cap as usize),
                Misfire::Skip | Misfire::One => these.len(),
            };
            let tick = fencepost_schedule::tick(&status, now);
            let left_out = these.len() - wanted;
            assert_eq!(
                (tick.fires.as_slice(), tick.missed),
                (&these[left_out..], left_out as u64),
                "{case}, now {now:?}"
            );
            assert_eq!(tick.next, following(through), "{case}, now {now:?}");
            seen[usize::from(is_misfire) + 2 * usize::from(tick.next.is_none())] += these.len();
            status = ScheduleStatus { next: tick.next, ..status };
            done = through;
        }
    }
    assert!(seen.iter().all(|seen| *seen > 10), "{seen:?}");
}

/// How much of its nominal times a list has.
const LISTED: usize = 2_000;

/// A schedule and when it is put, a day or less before clocks change.
fn drawn(random: &mut Random) -> (Schedule, Timestamp) {
    const DAY: Duration = Duration::from_secs(86_400);
    let specs = ["@every 61s", "@every 1s500ms", "@every 30h", "* * * * * *", "7,30 1-3 * * *", "*/20 0,2 29,L 3,10 0"];
    let rare = ["0 0 L * *", "0 */5 1-31/2 * *", "0 12 30 12 *"];
    let spec = specs.iter().chain(&rare).nth(random.below(9) as usize).unwrap();
    let (zone, change) = [
        ("Europe/Berlin", "2026-03-29T01:00:00Z"),
        ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
        ("Antarctica/Troll", "2026-10-25T01:00:00Z"),
        ("Pacific/Apia", "2011-12-30T10:00:00Z"),
    ][random.below(4) as usize];
    let change = at(change);
    let since = Timestamp::from_micros(change.as_micros() - random.below(DAY.as_micros() as u64) as i64);
    let mut bound = || match random.below(4) {
        0 => Some(change),
        1 => Some(since + Duration::from_micros(random.below(2 * DAY.as_micros() as u64))),
        _ => None,
    };
    let (from, until) = (bound(), bound());
    let misfire = [Misfire::Skip, Misfire::One, Misfire::All(3), Misfire::All(10_000)][random.below(4) as usize];
    let schedule = schedule(spec).zone(zone.parse().unwrap()).misfire(misfire).unwrap();
    let schedule = schedule.clone().within(from, until).unwrap_or(schedule);
    let longest = Spec::parse(spec).unwrap().interval().unwrap_or(DAY).min(DAY);
    let jitter = if random.below(2) == 0 { Duration::ZERO } else { longest };
    (schedule.jitter(jitter).unwrap(), since)
}

/// The first nominal times after an instant, by a timetable that knows no bounds.
fn nominal_times(schedule: &Schedule, since: Timestamp) -> Vec<Timestamp> {
    let ScheduleDefinition { spec, zone, from, until, .. } = schedule.definition();
    let spec = Spec::parse(spec).unwrap();
    let anchor = match (from, spec.interval()) {
        (Some(from), Some(interval)) => Timestamp::from_micros(from.as_micros() - interval.as_micros() as i64),
        _ => since,
    };
    let timetable = Timetable::new(spec, zone.parse().unwrap(), anchor);
    let all = after(&timetable, since).map(|nominal| nominal.at);
    let all = all.skip_while(|at| from.is_some_and(|from| *at < from));
    all.take_while(|at| until.is_none_or(|until| *at < until)).take(LISTED).collect()
}

fn before(at: Timestamp) -> Timestamp {
    Timestamp::from_micros(at.as_micros() - 1)
}

fn most(misfire: Misfire) -> u32 {
    match misfire {
        Misfire::Skip | Misfire::One => 1,
        Misfire::All(cap) => cap,
    }
}

/// What an engine could not read stops its schedule, with a problem that a tick may have, whatever it quotes.
#[test]
fn what_the_engine_could_not_read_is_its_problem() {
    let schedule = schedule("@every 1m");
    let since = at("2026-01-01T00:00:00Z");
    let status = ScheduleStatus { unreadable: Some("\0é".repeat(9_000)), ..put(&schedule, since) };
    let tick = tick_after(&status, since, Duration::from_secs(60));
    assert_eq!((&tick.fires[..], tick.next), (&[][..], None));
    assert!(tick.problem.as_ref().is_some_and(|problem| problem.contains('é')), "{tick:?}");
    fencepost_core::schedule::Tick::check(&[tick]).unwrap();
}
