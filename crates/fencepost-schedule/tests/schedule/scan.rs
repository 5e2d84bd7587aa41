//! The product beside a scan of every minute, which asks the library of time zones alone what clocks show, and knows the rule by its
//! words: a local time fires when clocks show it first, and one that they never show when they show the next one that they do.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_core::Timestamp;
use fencepost_schedule::{Spec, Timetable, Zone};
use fencepost_test_support::Random;
use jiff::tz::{Offset, TimeZone};

const ZONES: [&str; 13] = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Pacific/Apia",
    "Africa/Casablanca",
    "America/Sao_Paulo",
    "UTC",
    "Asia/Tehran",
    "Asia/Kolkata",
    "Pacific/Chatham",
    "Pacific/Auckland",
    "America/St_Johns",
];

const DAY: i64 = 86_400;

/// How far a scan goes beyond what it judges, so that no day that was skipped or shown twice is cut.
const MARGIN: i64 = 2 * DAY;

/// 2006-01-01 and 2026-01-01.
const YEARS: (i64, i64) = (1_136_073_600, 1_767_225_600);

/// When each local time is shown first, both in units of a step since 1970.
struct Shown {
    step: i64,
    first: BTreeMap<i64, i64>,
}

impl Shown {
    fn scan(zone: &TimeZone, from: i64, to: i64, step: i64) -> Self {
        let mut first = BTreeMap::new();
        for at in from / step..to / step {
            let instant = jiff::Timestamp::from_second(at * step).unwrap();
            let local = Offset::UTC.to_timestamp(zone.to_datetime(instant)).unwrap().as_second() / step;
            first.entry(local).or_insert(at);
        }
        Self { step, first }
    }

    /// The instants, in seconds and within a range, at which what matches fires.
    fn fires(&self, fields: &Fields, from: i64, to: i64) -> Vec<i64> {
        let (&least, &most) = (self.first.keys().next().unwrap(), self.first.keys().next_back().unwrap());
        let matching = (least..=most).filter(|local| fields.matches(local * self.step));
        let fires: BTreeSet<i64> =
            matching.filter_map(|local| self.first.range(local..).next()).map(|(_, at)| *at).collect();
        fires.into_iter().map(|at| at * self.step).filter(|at| (from..to).contains(at)).collect()
    }
}

/// One field as a test sees it: its text, its numbers, and whether there is a star in it.
struct Numbers {
    text: String,
    numbers: Vec<i64>,
    is_star: bool,
}

impl Numbers {
    fn draw(random: &mut Random, least: i64, most: i64) -> Self {
        let mut number = |least: i64, most: i64| least + random.below((most - least + 1) as u64) as i64;
        let (first, last) = (number(least, most), number(least, most));
        let (first, last) = (first.min(last), first.max(last));
        let step = number(1, (most - least).min(20));
        let stepped = |from: i64, to: i64| (from..=to).filter(|number| (number - from) % step == 0).collect();
        let (text, numbers, is_star) = match number(0, 7) {
            0 | 1 => ("*".into(), (least..=most).collect(), true),
            2 => (format!("*/{step}"), stepped(least, most), true),
            3 => (format!("{first}-{last}/{step}"), stepped(first, last), false),
            4 => (format!("{first}-{last}"), (first..=last).collect(), false),
            5 => (format!("{last},{first}"), vec![first, last], false),
            _ => (format!("{first}"), vec![first], false),
        };
        Self { text, numbers, is_star }
    }

    fn all(text: &str, least: i64, most: i64) -> Self {
        Self { text: text.into(), numbers: (least..=most).collect(), is_star: true }
    }

    fn has(&self, number: i64) -> bool {
        self.numbers.contains(&number)
    }
}

struct Fields {
    second: Numbers,
    minute: Numbers,
    hour: Numbers,
    day: Numbers,
    has_last: bool,
    month: Numbers,
    weekday: Numbers,
}

impl Fields {
    /// Fires often enough to meet the change of clocks in most windows.
    fn draw(random: &mut Random, has_seconds: bool) -> Self {
        let zero = Numbers { text: "0".into(), numbers: vec![0], is_star: false };
        let second = if has_seconds { Numbers::draw(random, 0, 59) } else { zero };
        let (minute, hour) = (Numbers::draw(random, 0, 59), Numbers::draw(random, 0, 23));
        let is_daily = random.below(3) > 0;
        let day = if is_daily { Numbers::all("?", 1, 31) } else { Numbers::draw(random, 1, 31) };
        let month = if is_daily { Numbers::all("*", 1, 12) } else { Numbers::draw(random, 1, 12) };
        let weekday = if is_daily { Numbers::all("*", 0, 6) } else { Numbers::draw(random, 0, 6) };
        let has_last = !day.is_star && random.below(3) == 0;
        Self { second, minute, hour, day, has_last, month, weekday }
    }

    fn text(&self) -> String {
        let Self { second, minute, hour, day, has_last, month, weekday } = self;
        let last = if *has_last { ",L" } else { "" };
        let texts = [&second.text, &minute.text, &hour.text, &day.text, &month.text, &weekday.text];
        let [second, minute, hour, day, month, weekday] = texts;
        format!("{second} {minute} {hour} {day}{last} {month} {weekday}")
    }

    fn matches(&self, local: i64) -> bool {
        let shown = Offset::UTC.to_datetime(jiff::Timestamp::from_second(local).unwrap());
        let date = shown.date();
        let of_month = self.day.has(date.day().into()) || (self.has_last && date == date.last_of_month());
        let of_week = self.weekday.has(date.weekday().to_sunday_zero_offset().into());
        let is_day = if self.day.is_star || self.weekday.is_star { of_month && of_week } else { of_month || of_week };
        self.minute.has(shown.minute().into())
            && self.hour.has(shown.hour().into())
            && self.second.has(shown.second().into())
            && self.month.has(date.month().into())
            && is_day
    }
}

fn instant(second: i64) -> Timestamp {
    Timestamp::from_micros(second * 1_000_000)
}

/// The spec, unless it is one that never fires, as on the 31st of February.
fn parse(text: &str) -> Option<Spec> {
    Spec::parse(text).map_err(|error| assert_eq!(error.fact("column"), None, "{error}")).ok()
}

/// Judges a window by specs that are drawn.
fn judge(zone: &str, rules: &TimeZone, (from, to): (i64, i64), specs: u64, random: &mut Random) {
    let shown = Shown::scan(rules, from - MARGIN, to + MARGIN, 60);
    for _ in 0..specs {
        let fields = Fields::draw(random, false);
        let text = fields.text();
        let Some(spec) = parse(&text) else { continue };
        let wanted = shown.fires(&fields, from, to);
        let timetable = Timetable::new(spec, Zone::parse(zone).unwrap(), instant(0));
        let (begin, end) = (instant(from - 1), instant(to - 1));

        let forwards = crate::after(&timetable, begin).map(|nominal| nominal.at).take_while(|at| *at <= end);
        let forwards: Vec<i64> = forwards.map(|at| at.as_micros() / 1_000_000).collect();
        assert_eq!(forwards, wanted, "`{text}` in {zone} from {from} to {to}");

        let last = timetable.last_by(end);
        let earlier = |at: Timestamp| timetable.last_by(Timestamp::from_micros(at.as_micros() - 1));
        let backwards = std::iter::successors(last, |next| earlier(next.at)).take_while(|nominal| nominal.at > begin);
        let mut backwards: Vec<i64> = backwards.map(|nominal| nominal.at.as_micros() / 1_000_000).collect();
        backwards.reverse();
        assert_eq!(backwards, wanted, "`{text}` in {zone} from {from} to {to}, backwards");
        assert_eq!(timetable.count(begin, end), wanted.len() as u64, "`{text}` in {zone} from {from} to {to}, counted");

        // From anywhere in between, too.
        for _ in 0..4 {
            let middle = from + random.below((to - from) as u64) as i64;
            let rest = wanted.partition_point(|at| *at <= middle);
            let at = Timestamp::from_micros(middle * 1_000_000 + random.below(1_000_000) as i64);
            let next = timetable.next_after(at).map(|nominal| nominal.at).filter(|at| *at <= end);
            assert_eq!(next, wanted.get(rest).map(|at| instant(*at)), "`{text}` in {zone} after {middle}");
            assert_eq!(
                timetable.count(at, end),
                (wanted.len() - rest) as u64,
                "`{text}` in {zone} counted from {middle}"
            );
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

#[test]
fn every_minute_of_twenty_years_fires_as_the_words_say() {
    let mut random = Random::seeded(number("FENCEPOST_SEED").unwrap_or(13));
    let whole = number("FENCEPOST_EVERY_DAY");
    for zone in ZONES {
        let rules = jiff::tz::TimeZoneDatabase::from_env().get(zone).unwrap();
        let windows: Vec<(i64, i64)> = match whole {
            Some(_) => (YEARS.0..YEARS.1).step_by(30 * DAY as usize).map(|from| (from, from + 30 * DAY)).collect(),
            None => {
                let changes = rules.following(jiff::Timestamp::from_second(YEARS.0).unwrap());
                let changes = changes.map(|change| change.timestamp().as_second()).take_while(|at| *at < YEARS.1);
                let quiet = YEARS.0 + random.below((YEARS.1 - YEARS.0) as u64) as i64 / 60 * 60;
                changes.chain([quiet]).map(|at| (at - DAY / 2, at + DAY / 2)).collect()
            }
        };
        for window in windows {
            judge(zone, &rules, window, whole.unwrap_or(2), &mut random);
        }
    }
}

#[test]
fn every_second_around_a_change_fires_as_the_words_say() {
    let mut random = Random::seeded(number("FENCEPOST_SEED").unwrap_or(17));
    for (zone, change) in [("Europe/Berlin", 1_774_746_000), ("Australia/Lord_Howe", 1_775_314_800)] {
        let rules = jiff::tz::TimeZoneDatabase::from_env().get(zone).unwrap();
        assert_eq!(
            rules.following(jiff::Timestamp::from_second(change - 1).unwrap()).next().unwrap().timestamp().as_second(),
            change
        );
        let shown_from = change - 7_200;
        // Only two hours: a scan by seconds is long, and both changes are of an hour at most.
        let shown = Shown::scan(&rules, shown_from - 7_200, change + 14_400, 1);
        for _ in 0..20 {
            let fields = Fields::draw(&mut random, true);
            let Some(spec) = parse(&fields.text()) else { continue };
            let wanted = shown.fires(&fields, shown_from, change + 7_200);
            let timetable = Timetable::new(spec, Zone::parse(zone).unwrap(), instant(0));
            let found =
                crate::after(&timetable, instant(shown_from - 1)).map(|nominal| nominal.at.as_micros() / 1_000_000);
            let found: Vec<i64> = found.take_while(|at| *at < change + 7_200).collect();
            assert_eq!(found, wanted, "`{}` in {zone}", fields.text());
        }
    }
}
