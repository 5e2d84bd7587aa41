//! Dates and local times as numbers: what a clock on the wall shows, without a zone. Only the years 1 to 9999 exist.

use std::fmt;

/// Seconds of a day.
pub const DAY: i64 = 86_400;

/// Days from 0001-01-01 to 1970-01-01.
const EPOCH: i64 = 719_162;

/// The days of 400 years, after which dates and weekdays repeat.
const CYCLE: i64 = 146_097;

/// What a clock on the wall shows, to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalTime(i64);

/// A day of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    pub year: i64,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
}

impl LocalTime {
    /// So many seconds after 1970-01-01T00:00:00 on the same clock.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds)
    }

    /// The last one there is.
    pub const LAST: Self = Self(253_402_300_799);

    /// So many seconds into a day.
    pub fn new(date: Date, second: u32) -> Self {
        Self(date.days() * DAY + i64::from(second))
    }

    /// Seconds since 1970-01-01T00:00:00 on the same clock.
    pub const fn seconds(self) -> i64 {
        self.0
    }

    /// The day, if its year is one of 1 to 9999.
    pub fn date(self) -> Option<Date> {
        Date::from_days(self.0.div_euclid(DAY))
    }

    /// Seconds since the day began.
    pub const fn second_of_day(self) -> u32 {
        self.0.rem_euclid(DAY) as u32
    }

    /// Without the date: `02:30:00`.
    pub(crate) fn time_of_day(self) -> String {
        let second = self.second_of_day();
        format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
    }
}

impl fmt::Display for LocalTime {
    /// `2026-03-29T02:30:00`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.date() {
            Some(Date { year, month, day }) => write!(f, "{year:04}-{month:02}-{day:02}T{}", self.time_of_day()),
            None => write!(f, "{}s", self.0),
        }
    }
}

impl Date {
    /// The last year.
    pub const LAST_YEAR: i64 = 9_999;

    /// The day, if the month has it.
    pub fn new(year: i64, month: u32, day: u32) -> Option<Self> {
        let is_one = (1..=Self::LAST_YEAR).contains(&year)
            && (1..=12).contains(&month)
            && (1..=length(year, month)).contains(&day);
        is_one.then_some(Self { year, month, day })
    }

    /// The day so many days after 1970-01-01.
    pub fn from_days(days: i64) -> Option<Self> {
        let number = days.checked_add(EPOCH)?;
        let mut year = number.checked_mul(400)?.div_euclid(CYCLE) + 1;
        // The mean year of the estimate and the year itself begin a few days apart.
        if before_year(year) > number {
            year -= 1;
        } else if before_year(year + 1) <= number {
            year += 1;
        }
        let mut day = (number - before_year(year)) as u32 + 1;
        let mut month = 1;
        while day > length(year, month) {
            day -= length(year, month);
            month += 1;
        }
        Self::new(year, month, day)
    }

    /// Days after 1970-01-01.
    pub fn days(self) -> i64 {
        let months: u32 = (1..self.month).map(|month| length(self.year, month)).sum();
        before_year(self.year) - EPOCH + i64::from(months + self.day - 1)
    }
}

/// Days from 0001-01-01 to the first day of `year`.
fn before_year(year: i64) -> i64 {
    let years = year - 1;
    365 * years + years.div_euclid(4) - years.div_euclid(100) + years.div_euclid(400)
}

/// How many days a month has.
pub fn length(year: i64, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The weekday of the first day of a month, from 0 for Sunday.
pub fn first_weekday(year: i64, month: u32) -> u32 {
    // 1970-01-01 was a Thursday.
    (Date { year, month, day: 1 }.days() + 4).rem_euclid(7) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_ten_thousand_years_is_the_one_that_jiff_says() {
        let mut theirs = jiff::civil::Date::constant(1, 1, 1);
        let mut days = -EPOCH;
        loop {
            let ours = Date::from_days(days).unwrap();
            assert_eq!(
                (ours.year, ours.month, ours.day),
                (i64::from(theirs.year()), theirs.month() as u32, theirs.day() as u32)
            );
            assert_eq!(ours.days(), days);
            if ours.day == 1 {
                let weekday = theirs.weekday().to_sunday_zero_offset();
                assert_eq!(first_weekday(ours.year, ours.month), weekday as u32, "{ours:?}");
            }
            days += 1;
            match theirs.tomorrow() {
                Ok(next) => theirs = next,
                Err(_) => break,
            }
        }
        assert_eq!(Date::from_days(days), None);
        assert_eq!(Date::from_days(-EPOCH - 1), None);
        assert_eq!(Date::from_days(i64::MAX), None);
        assert_eq!(Date::from_days(i64::MIN), None);
    }

    #[test]
    fn a_local_time_prints_as_clocks_do() {
        let time = LocalTime::new(Date::new(2026, 3, 29).unwrap(), 2 * 3600 + 30 * 60 + 5);
        assert_eq!(time.to_string(), "2026-03-29T02:30:05");
        assert_eq!(LocalTime::from_seconds(-1).to_string(), "1969-12-31T23:59:59");
        assert_eq!(LocalTime::LAST.to_string(), "9999-12-31T23:59:59");
        assert_eq!(Date::new(2026, 2, 29), None);
    }
}
