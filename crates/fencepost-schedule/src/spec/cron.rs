//! Cron specs over local times: what matches, what comes next and what came last, and how many there are. Sets of bits, so that
//! nothing is walked minute by minute.

use std::fmt;

use fencepost_core::Result;

use super::field::{Field, Place};
use super::part::Part;
use crate::calendar::{self, Date, LocalTime};

/// The months after which dates and weekdays repeat.
const CYCLE: usize = 400 * 12;

/// A cron spec.
#[derive(Debug, Clone)]
pub struct Cron {
    second: Field,
    minute: Field,
    hour: Field,
    day_of_month: Field,
    month: Field,
    day_of_week: Field,
}

impl Cron {
    /// Reads 5 fields, or 6 with the second before them.
    ///
    /// # Errors
    /// `invalid_input`, also when no day ever matches.
    pub fn parse(text: Part<'_>) -> Result<Self> {
        let words: Vec<Part<'_>> = text.words().collect();
        let (second, fields) = match words.as_slice() {
            [second, fields @ ..] if fields.len() == 5 => (Field::parse(Place::Second, *second)?, fields),
            fields => (Field::zero(), fields),
        };
        let &[minute, hour, day_of_month, month, day_of_week] = fields else {
            let plural = if words.len() == 1 { "" } else { "s" };
            let why = format!("it has {} field{plural}", words.len());
            let hint = "a cron spec has 5: minute, hour, day of the month, month, day of the week; or 6 with the second before them";
            return Err(text.refuse_all(why, hint));
        };
        let cron = Self {
            second,
            minute: Field::parse(Place::Minute, minute)?,
            hour: Field::parse(Place::Hour, hour)?,
            day_of_month: Field::parse(Place::DayOfMonth, day_of_month)?,
            month: Field::parse(Place::Month, month)?,
            day_of_week: Field::parse(Place::DayOfWeek, day_of_week)?,
        };
        let has_days = |(year, month)| cron.days(year, month) != 0;
        if !months_from(2000, 1).take(CYCLE).any(has_days) {
            return Err(text.refuse_all("it never fires", "name a day that one of its months has"));
        }
        Ok(cron)
    }

    /// Whether a clock that shows it matches.
    pub fn matches(&self, local: LocalTime) -> bool {
        local.date().is_some_and(|date| self.has_day(date))
            && self.first_time(local.second_of_day()) == Some(local.second_of_day())
    }

    /// The first local time after this one that matches.
    pub fn next_after(&self, local: LocalTime) -> Option<LocalTime> {
        let from = LocalTime::from_seconds(local.seconds().checked_add(1)?);
        let date = from.date()?;
        if self.has_day(date)
            && let Some(second) = self.first_time(from.second_of_day())
        {
            return Some(LocalTime::new(date, second));
        }
        let day = months_from(date.year, date.month).find_map(|(year, month)| {
            let later = if (year, month) == (date.year, date.month) { date.day + 1 } else { 1 };
            at_least(self.days(year, month), later).and_then(|day| Date::new(year, month, day))
        })?;
        Some(LocalTime::new(day, self.first_time(0)?))
    }

    /// The last local time that matches, up to this one.
    pub fn last_by(&self, local: LocalTime) -> Option<LocalTime> {
        let date = local.date()?;
        if self.has_day(date)
            && let Some(second) = self.last_time(local.second_of_day())
        {
            return Some(LocalTime::new(date, second));
        }
        let day = months_to(date.year, date.month).find_map(|(year, month)| {
            let earlier = if (year, month) == (date.year, date.month) { date.day - 1 } else { 31 };
            at_most(self.days(year, month), earlier).and_then(|day| Date::new(year, month, day))
        })?;
        Some(LocalTime::new(day, self.last_time(86_399)?))
    }

    /// How many local times match, after one and up to another.
    pub fn count(&self, after: LocalTime, through: LocalTime) -> u64 {
        let Some(since) = after.date() else { return 0 };
        self.count_by(since, through).saturating_sub(self.count_by(since, after))
    }

    /// How many match since the month of `since` began, and up to a local time.
    fn count_by(&self, since: Date, local: LocalTime) -> u64 {
        let Some(date) = local.date().filter(|date| *date >= since) else { return 0 };
        let before = months_from(since.year, since.month).take_while(|month| *month != (date.year, date.month));
        let full: u32 = before.map(|(year, month)| self.days(year, month).count_ones()).sum();
        let of_month = (self.days(date.year, date.month) & below(date.day)).count_ones();
        let today = if self.has_day(date) { self.times_below(local.second_of_day() + 1) } else { 0 };
        u64::from(full + of_month) * self.times_below(86_400) + today
    }

    fn has_day(&self, date: Date) -> bool {
        self.days(date.year, date.month) >> date.day & 1 == 1
    }

    /// The days of a month that match, as bits from 1.
    fn days(&self, year: i64, month: u32) -> u64 {
        if self.month.set() >> month & 1 == 0 {
            return 0;
        }
        let length = calendar::length(year, month);
        let of_month = self.day_of_month.set() | u64::from(self.day_of_month.has_last()) << length;
        let weekdays = self.day_of_week.set();
        let first = calendar::first_weekday(year, month);
        // Rotated so that bit 0 is the weekday of the first day, then repeated for every week.
        let week = (weekdays >> first | weekdays << (7 - first)) & 0x7f;
        let of_week = (0..5).fold(0, |days, number| days | week << (7 * number)) << 1;
        let either = self.day_of_month.has_star() || self.day_of_week.has_star();
        let days = if either { of_month & of_week } else { of_month | of_week };
        days & below(length + 1) & !1
    }

    /// The first second of a day that matches, from one on.
    fn first_time(&self, from: u32) -> Option<u32> {
        let (hours, minutes, seconds) = (self.hour.set(), self.minute.set(), self.second.set());
        let (hour, minute, second) = (from / 3600, from / 60 % 60, from % 60);
        if hours >> hour & 1 == 1 {
            if minutes >> minute & 1 == 1
                && let Some(second) = at_least(seconds, second)
            {
                return Some(hour * 3600 + minute * 60 + second);
            }
            if let Some(minute) = at_least(minutes, minute + 1) {
                return Some(hour * 3600 + minute * 60 + at_least(seconds, 0)?);
            }
        }
        Some(at_least(hours, hour + 1)? * 3600 + at_least(minutes, 0)? * 60 + at_least(seconds, 0)?)
    }

    /// The last second of a day that matches, up to one.
    fn last_time(&self, to: u32) -> Option<u32> {
        let (hours, minutes, seconds) = (self.hour.set(), self.minute.set(), self.second.set());
        let (hour, minute, second) = (to / 3600, to / 60 % 60, to % 60);
        if hours >> hour & 1 == 1 {
            if minutes >> minute & 1 == 1
                && let Some(second) = at_most(seconds, second)
            {
                return Some(hour * 3600 + minute * 60 + second);
            }
            if let Some(minute) = minute.checked_sub(1).and_then(|minute| at_most(minutes, minute)) {
                return Some(hour * 3600 + minute * 60 + at_most(seconds, 59)?);
            }
        }
        let hour = hour.checked_sub(1).and_then(|hour| at_most(hours, hour))?;
        Some(hour * 3600 + at_most(minutes, 59)? * 60 + at_most(seconds, 59)?)
    }

    /// How many seconds of a day match before one.
    fn times_below(&self, end: u32) -> u64 {
        let (hours, minutes, seconds) = (self.hour.set(), self.minute.set(), self.second.set());
        let count = |set: u64| u64::from(set.count_ones());
        let (hour, minute, second) = (end / 3600, end / 60 % 60, end % 60);
        let mut times = count(hours & below(hour)) * count(minutes) * count(seconds);
        if hours >> hour & 1 == 1 {
            times += count(minutes & below(minute)) * count(seconds);
            if minutes >> minute & 1 == 1 {
                times += count(seconds & below(second));
            }
        }
        times
    }
}

/// The bits below `end`, which is at most 63.
fn below(end: u32) -> u64 {
    (1 << end) - 1
}

/// The first member of a set from `from` on.
fn at_least(set: u64, from: u32) -> Option<u32> {
    let rest = set & !below(from);
    (rest != 0).then(|| rest.trailing_zeros())
}

/// The last member of a set up to `to`.
fn at_most(set: u64, to: u32) -> Option<u32> {
    let rest = set & below(to + 1);
    (rest != 0).then(|| 63 - rest.leading_zeros())
}

/// The months from one to the last of the year 9999.
fn months_from(year: i64, month: u32) -> impl Iterator<Item = (i64, u32)> {
    (year..=Date::LAST_YEAR).flat_map(move |of| (if of == year { month } else { 1 }..=12).map(move |month| (of, month)))
}

/// The months from one back to the first of the year 1.
fn months_to(year: i64, month: u32) -> impl Iterator<Item = (i64, u32)> {
    (1..=year).rev().flat_map(move |of| (1..=if of == year { month } else { 12 }).rev().map(move |month| (of, month)))
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.second.is_zero() {
            write!(f, "{} ", self.second)?;
        }
        let Self { minute, hour, day_of_month, month, day_of_week, .. } = self;
        write!(f, "{minute} {hour} {day_of_month} {month} {day_of_week}")
    }
}
