//! The product beside a scan of every minute, which asks the library of time zones alone what clocks show, and knows the rule by its
//! words: a local time fires when clocks show it first, and one that they never show when they show the next one that they do.

use std::ops::RangeInclusive;

use fencepost_core::Timestamp;
use fencepost_schedule::{Spec, Timetable, Zone};
use fencepost_test_support::Random;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};

const ZONES: [&str; 16] = [
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
    "Antarctica/Troll",
    "Asia/Gaza",
    "Europe/Dublin",
];

const DAY: i64 = 86_400;
const MONTH: i64 = 30 * DAY;

/// How far a scan goes beyond what it judges, so that no day that was skipped or shown twice is cut.
const MARGIN: i64 = 2 * DAY;

/// 2006-01-01 and 2026-01-01.
const YEARS: (i64, i64) = (1_136_073_600, 1_767_225_600);

/// So many specs are drawn for each zone, unless told.
const SPECS: u64 = 12;

/// A spec that fires more often is walked through where clocks change and in some months, and counted in all.
const DENSE: usize = 150_000;

/// How many months of such a spec are walked through.
const MONTHS: u64 = 4;

/// At how many instants it is asked what comes next and what came last.
const BETWEEN: u64 = 100;

/// No instant.
const NEVER: i64 = i64::MAX;

/// When each local time fires, for local times that are a step apart.
struct Shown {
    step: i64,
    /// The first local time, which begins a day.
    begin: i64,
    /// In seconds since 1970, as all instants here.
    fires: Vec<i64>,
    /// Where clocks were changed.
    changes: Vec<i64>,
}

impl Shown {
    /// Looks at the clocks at each step from one instant to another.
    fn scan(zone: &TimeZone, from: i64, to: i64, step: i64) -> Self {
        let begin = (from - MARGIN).div_euclid(DAY) * DAY;
        let mut fires = vec![NEVER; ((to + MARGIN - begin) / step) as usize];
        let (mut changes, mut past) = (Vec::new(), None);
        for at in (from..to).step_by(step as usize) {
            let offset = i64::from(zone.to_offset(jiff::Timestamp::from_second(at).unwrap()).seconds());
            if past.replace(offset).is_some_and(|past| past != offset) {
                changes.push(at);
            }
            let local = at + offset;
            assert_eq!(local % step, 0, "clocks show whole steps only");
            let first = &mut fires[((local - begin) / step) as usize];
            *first = at.min(*first);
        }
        let mut next = NEVER;
        for fire in fires.iter_mut().rev() {
            if *fire == NEVER {
                *fire = next;
            }
            next = *fire;
        }
        Self { step, begin, fires, changes }
    }

    /// The instants within a range at which what matches fires.
    fn fires(&self, fields: &Fields, from: i64, to: i64) -> Vec<i64> {
        let steps = (DAY / self.step) as usize;
        let times: Vec<usize> = (0..steps).filter(|at| fields.has_time(*at as i64 * self.step)).collect();
        let mut found = Vec::new();
        for (number, day) in self.fires.chunks(steps).enumerate() {
            if fields.has_day(self.begin + number as i64 * DAY) {
                let fires = times.iter().filter_map(|time| day.get(*time));
                found.extend(fires.filter(|at| (from..to).contains(*at)));
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// One field as a test sees it: its text, its numbers as bits, and whether there is a star in it.
struct Numbers {
    text: String,
    numbers: u64,
    is_star: bool,
}

impl Numbers {
    fn draw(random: &mut Random, least: i64, most: i64) -> Self {
        let mut number = |least: i64, most: i64| least + random.below((most - least + 1) as u64) as i64;
        let (first, last) = (number(least, most), number(least, most));
        let (first, last) = (first.min(last), first.max(last));
        let step = number(1, (most - least).min(20));
        let (text, numbers, is_star) = match number(0, 7) {
            0 | 1 => ("*".into(), bits(least..=most, 1), true),
            2 => (format!("*/{step}"), bits(least..=most, step), true),
            3 => (format!("{first}-{last}/{step}"), bits(first..=last, step), false),
            4 => (format!("{first}-{last}"), bits(first..=last, 1), false),
            5 => (format!("{last},{first}"), bits(first..=first, 1) | bits(last..=last, 1), false),
            _ => (format!("{first}"), bits(first..=first, 1), false),
        };
        Self { text, numbers, is_star }
    }

    fn all(text: &str, least: i64, most: i64) -> Self {
        Self { text: text.into(), numbers: bits(least..=most, 1), is_star: true }
    }

    fn has(&self, number: i64) -> bool {
        self.numbers >> number & 1 == 1
    }
}

fn bits(numbers: RangeInclusive<i64>, step: i64) -> u64 {
    numbers.step_by(step as usize).fold(0, |bits, number| bits | 1 << number)
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
    /// Most fire every day, so that they meet the changes of clocks.
    fn draw(random: &mut Random, has_seconds: bool) -> Self {
        let zero = Numbers { text: "0".into(), numbers: 1, is_star: false };
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

    /// Whether the day that begins with a local time matches.
    fn has_day(&self, local: i64) -> bool {
        let date = Offset::UTC.to_datetime(jiff::Timestamp::from_second(local).unwrap()).date();
        let of_month = self.day.has(date.day().into()) || (self.has_last && date == date.last_of_month());
        let of_week = self.weekday.has(date.weekday().to_sunday_zero_offset().into());
        let is_day = if self.day.is_star || self.weekday.is_star { of_month && of_week } else { of_month || of_week };
        is_day && self.month.has(date.month().into())
    }

    fn has_time(&self, second: i64) -> bool {
        self.hour.has(second / 3_600) && self.minute.has(second / 60 % 60) && self.second.has(second % 60)
    }
}

fn instant(second: i64) -> Timestamp {
    Timestamp::from_micros(second * 1_000_000)
}

/// The spec, unless it is one that never fires, as on the 31st of February.
fn parse(text: &str) -> Option<Spec> {
    Spec::parse(text).map_err(|error| assert_eq!(error.fact("column"), None, "{error}")).ok()
}

/// A timetable and what it is to say.
struct Judged<'s> {
    name: String,
    timetable: Timetable,
    wanted: &'s [i64],
}

impl<'s> Judged<'s> {
    fn new(spec: Spec, zone: &str, wanted: &'s [i64]) -> Self {
        let name = format!("`{spec}` in {zone}");
        Self { name, timetable: Timetable::new(spec, Zone::parse(zone).unwrap(), instant(0)), wanted }
    }

    fn within(&self, from: i64, to: i64) -> &'s [i64] {
        let begin = self.wanted.partition_point(|at| *at < from);
        let end = self.wanted.partition_point(|at| *at < to);
        &self.wanted[begin..end]
    }

    fn next_after(&self, at: Timestamp) -> Option<Timestamp> {
        self.timetable.next_after(at).map(|nominal| nominal.at)
    }

    fn last_by(&self, at: Timestamp) -> Option<Timestamp> {
        self.timetable.last_by(at).map(|nominal| nominal.at)
    }

    /// Forwards and backwards over a range.
    fn walk(&self, from: i64, to: i64) {
        let name = &self.name;
        let (mut here, mut later) = (instant(from - 1), to);
        for at in self.within(from, to) {
            let next = self.next_after(here);
            assert_eq!(next, Some(instant(*at)), "{name} after {here:?}");
            here = instant(*at);
        }
        let next = self.next_after(here);
        assert!(next.is_none_or(|at| at >= instant(to)), "{name} after {here:?}: {next:?}");
        for at in self.within(from, to).iter().rev() {
            let by = Timestamp::from_micros(later * 1_000_000 - 1);
            assert_eq!(self.last_by(by), Some(instant(*at)), "{name} by {by:?}");
            later = *at;
        }
        let last = self.last_by(Timestamp::from_micros(later * 1_000_000 - 1));
        assert!(last.is_none_or(|at| at < instant(from)), "{name} before {later}: {last:?}");
    }

    fn count(&self, from: i64, to: i64) {
        let count = self.timetable.count(instant(from - 1), instant(to - 1));
        assert_eq!(count, self.within(from, to).len() as u64, "{} counted from {from} to {to}", self.name);
    }

    /// From anywhere between two fires.
    fn between(&self, from: i64, to: i64, random: &mut Random) {
        let name = &self.name;
        let second = from + random.below((to - from) as u64) as i64;
        let at = Timestamp::from_micros(second * 1_000_000 + random.below(1_000_000) as i64);
        let (earlier, later) = self.wanted.split_at(self.wanted.partition_point(|at| *at <= second));
        let next = self.next_after(at).filter(|at| *at < instant(to));
        assert_eq!(next, later.first().map(|at| instant(*at)), "{name} after {at:?}");
        let last = self.last_by(at).filter(|at| *at >= instant(from));
        assert_eq!(last, earlier.last().map(|at| instant(*at)), "{name} by {at:?}");
        assert_eq!(self.timetable.count(at, instant(to - 1)), later.len() as u64, "{name} counted from {at:?}");
        assert_eq!(self.timetable.count(instant(from - 1), at), earlier.len() as u64, "{name} counted to {at:?}");
    }
}

/// All of it, if it does not fire too often; otherwise where clocks change, and some months.
fn walks(wanted: &[i64], changes: &[i64], random: &mut Random) -> Vec<(i64, i64)> {
    if wanted.len() <= DENSE {
        return vec![YEARS];
    }
    let around = changes.iter().map(|at| (at - DAY / 2, at + DAY / 2));
    let months = (0..MONTHS).map(|_| YEARS.0 + random.below((YEARS.1 - YEARS.0 - MONTH) as u64) as i64);
    around.chain(months.map(|from| (from, from + MONTH))).collect()
}

fn rules(zone: &str) -> TimeZone {
    TimeZoneDatabase::from_env().get(zone).unwrap()
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

#[test]
fn every_minute_of_twenty_years_fires_as_the_words_say() {
    let mut random = Random::seeded(number("FENCEPOST_SEED").unwrap_or(13));
    let specs = number("FENCEPOST_EVERY_DAY").unwrap_or(SPECS);
    let (from, to) = YEARS;
    for zone in ZONES {
        let shown = Shown::scan(&rules(zone), from - MARGIN, to + MARGIN, 60);
        for _ in 0..specs {
            let fields = Fields::draw(&mut random, false);
            let Some(spec) = parse(&fields.text()) else { continue };
            let wanted = shown.fires(&fields, from, to);
            let judged = Judged::new(spec, zone, &wanted);
            for (from, to) in walks(&wanted, &shown.changes, &mut random) {
                judged.walk(from, to);
            }
            judged.count(from, to);
            for month in (from..to - MONTH).step_by(MONTH as usize) {
                judged.count(month, month + MONTH);
            }
            for _ in 0..BETWEEN {
                judged.between(from, to, &mut random);
            }
        }
    }
}

#[test]
fn every_second_around_a_change_fires_as_the_words_say() {
    let mut random = Random::seeded(number("FENCEPOST_SEED").unwrap_or(17));
    for (zone, change) in [
        ("Europe/Berlin", 1_774_746_000),
        ("Australia/Lord_Howe", 1_775_314_800),
        // Two hours.
        ("Antarctica/Troll", 1_774_746_000),
        // From the 29th to the 31st of December.
        ("Pacific/Apia", 1_325_239_200),
        // From 44 minutes and 30 seconds west of UTC to UTC.
        ("Africa/Monrovia", 63_593_070),
    ] {
        // Some hours only: a scan by seconds is long.
        let (from, to) = (change - 4 * 3_600, change + 4 * 3_600);
        let shown = Shown::scan(&rules(zone), from - MARGIN, to + MARGIN, 1);
        assert_eq!(shown.changes, [change], "{zone}");
        for _ in 0..20 {
            let fields = Fields::draw(&mut random, true);
            let Some(spec) = parse(&fields.text()) else { continue };
            let wanted = shown.fires(&fields, from, to);
            let judged = Judged::new(spec, zone, &wanted);
            judged.walk(from, to);
            judged.count(from, to);
            judged.between(from, to, &mut random);
        }
    }
}
