//! The nominal times of a spec in a zone: the next one, the last one, how many there are.
//!
//! INVARIANT: a nominal time is the first instant at which the zone's clocks have shown a local time that matches, or a later one. So
//! nominal times rise with local times; what a gap skips fires once after it; what is shown twice fires the first time.

use std::time::Duration;

use fencepost_core::Timestamp;

use crate::calendar::LocalTime;
use crate::spec::{Cron, Instant, Spec, When};
use crate::zone::Zone;

/// The last instant that is told: the last second of the year 9999.
const LAST: Timestamp = Timestamp::from_micros(LocalTime::LAST.seconds() * 1_000_000);

/// A spec in a zone, within bounds.
///
/// A cron spec means what the clocks on the wall show, and an hour that they show twice fires once: `*/30 * * * *` pauses for an hour
/// when summer time ends. Intervals of real time are what `@every` is for.
///
/// ```
/// use fencepost_core::Timestamp;
/// use fencepost_schedule::{Spec, Timetable, Zone};
///
/// let daily = Timetable::new(Spec::parse("0 8 * * *")?, Zone::parse("Asia/Kathmandu")?, Timestamp::default());
/// let next = daily.next_after("2026-01-01T00:00:00Z".parse()?).unwrap();
/// assert_eq!(next.at, "2026-01-01T02:15:00Z".parse()?);
/// # Ok::<_, fencepost_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Timetable {
    spec: Spec,
    zone: Zone,
    anchor_at: Timestamp,
    from: Option<Timestamp>,
    until: Option<Timestamp>,
}

/// A time at which a schedule fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nominal {
    /// The instant.
    pub at: Timestamp,
    /// What the zone's clocks have to do with it.
    pub shift: Shift,
}

/// Whether a local time is where one would expect it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shift {
    /// It is.
    None,
    /// The clocks skip it, and this is the first instant after the gap.
    AfterGap {
        /// The local time that was asked for; the first if there are several.
        wanted: LocalTime,
    },
    /// The clocks show it twice, and this is the first time.
    Overlap,
}

impl Timetable {
    /// The nominal times of `spec` in `zone`. Those of an `@every` are whole intervals after the anchor.
    pub fn new(spec: Spec, zone: Zone, anchor_at: Timestamp) -> Self {
        Self { spec, zone, anchor_at, from: None, until: None }
    }

    /// Leaves out what is before `from`, or is `until` or later. A `from` takes the place of the anchor: it is where an `@every` begins to
    /// count, and its first nominal time.
    #[must_use]
    pub fn within(mut self, from: Option<Timestamp>, until: Option<Timestamp>) -> Self {
        (self.from, self.until) = (from, until);
        self
    }

    /// The zone.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// The first nominal time after an instant.
    pub fn next_after(&self, at: Timestamp) -> Option<Nominal> {
        self.following(at).map(|at| self.described(at))
    }

    /// The last nominal time up to an instant.
    pub fn last_by(&self, at: Timestamp) -> Option<Nominal> {
        self.preceding(at).map(|at| self.described(at))
    }

    /// How many nominal times are after one instant and up to another. It costs no more for many than for few.
    pub fn count(&self, after: Timestamp, through: Timestamp) -> u64 {
        let after = after.max(before(self.begins()));
        let through = self.until.map_or(through, |until| through.min(before(until))).min(LAST);
        if through <= after {
            return 0;
        }
        match self.spec.when() {
            When::Every(interval) => {
                let (first, interval) = (self.first_interval(*interval), micros(*interval));
                let by = |at: Timestamp| at.as_micros().saturating_sub(first.as_micros()).div_euclid(interval).max(-1);
                (by(through) - by(after)) as u64
            }
            When::Cron(cron) => self.count_cron(cron, after, through),
            When::At(_) => u64::from(self.following(after).is_some_and(|at| at <= through)),
        }
    }

    /// Only the instant of [`Timetable::next_after`].
    pub(crate) fn following(&self, at: Timestamp) -> Option<Timestamp> {
        let at = at.max(before(self.begins()));
        let found = match self.spec.when() {
            When::Every(interval) => {
                let (first, interval) = (self.first_interval(*interval), micros(*interval));
                let past = at.as_micros().checked_sub(first.as_micros())?.div_euclid(interval).max(-1);
                Timestamp::from_micros(first.as_micros().checked_add(past.checked_add(1)?.checked_mul(interval)?)?)
            }
            When::Cron(cron) => self.zone.first_at(cron.next_after(self.zone.shown_by(at))?),
            When::At(instant) => Some(self.instant(*instant)).filter(|found| *found > at)?,
        };
        (found <= LAST && self.until.is_none_or(|until| found < until)).then_some(found)
    }

    /// Only the instant of [`Timetable::last_by`].
    pub(crate) fn preceding(&self, at: Timestamp) -> Option<Timestamp> {
        let at = self.until.map_or(at, |until| at.min(before(until))).min(LAST);
        let found = match self.spec.when() {
            When::Every(interval) => {
                let (first, interval) = (self.first_interval(*interval), micros(*interval));
                let past = at.as_micros().checked_sub(first.as_micros())?.div_euclid(interval);
                Some(past).filter(|past| *past >= 0)?;
                Timestamp::from_micros(first.as_micros() + past * interval)
            }
            When::Cron(cron) => self.zone.first_at(cron.last_by(self.zone.shown_by(at))?),
            When::At(instant) => Some(self.instant(*instant)).filter(|found| *found <= at)?,
        };
        (found >= self.begins()).then_some(found)
    }

    /// Nothing fires before; never before 1970.
    fn begins(&self) -> Timestamp {
        self.from.unwrap_or_default()
    }

    fn first_interval(&self, interval: Duration) -> Timestamp {
        self.from.unwrap_or_else(|| self.anchor_at + interval)
    }

    fn instant(&self, instant: Instant) -> Timestamp {
        match instant {
            Instant::Fixed(at) => at,
            Instant::Local(local) => self.zone.first_at(local),
        }
    }

    /// Local times that match are counted, less those that a gap makes one instant of.
    fn count_cron(&self, cron: &Cron, after: Timestamp, through: Timestamp) -> u64 {
        let all = cron.count(self.zone.shown_by(after), self.zone.shown_by(through));
        let merged = |at| {
            let skipped = cron.count(self.zone.shown_by(before(at)), self.zone.shown_by(at));
            skipped.saturating_sub(1)
        };
        all - self.zone.changes(after, through).map(merged).sum::<u64>()
    }

    /// What the clocks have to do with a nominal time.
    fn described(&self, at: Timestamp) -> Nominal {
        let local = self.zone.local(at);
        let (is_wanted, skipped) = match self.spec.when() {
            When::Every(_) | When::At(Instant::Fixed(_)) => return Nominal { at, shift: Shift::None },
            When::At(Instant::Local(wanted)) => (*wanted == local, Some(*wanted)),
            When::Cron(cron) => (cron.matches(local), cron.next_after(self.zone.shown_by(before(at)))),
        };
        let shift = match skipped {
            Some(wanted) if !is_wanted => Shift::AfterGap { wanted },
            _ if self.zone.repeats(at) => Shift::Overlap,
            _ => Shift::None,
        };
        Nominal { at, shift }
    }
}

/// The instant right before.
pub(crate) fn before(at: Timestamp) -> Timestamp {
    Timestamp::from_micros(at.as_micros().saturating_sub(1))
}

fn micros(interval: Duration) -> i64 {
    interval.as_micros() as i64
}
