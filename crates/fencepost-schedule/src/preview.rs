//! What a timetable is going to do, for people.

use std::fmt;

use fencepost_core::Timestamp;

use crate::calendar::LocalTime;
use crate::timetable::{Nominal, Shift, Timetable};
use crate::zone::Zone;

/// A nominal time as the clocks of its zone show it.
///
/// It prints as local time with its offset, the name of the zone's time, and a note where the clocks change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The nominal time.
    pub nominal: Nominal,
    /// What the clocks show then.
    pub local: LocalTime,
    /// Seconds east of UTC then.
    pub offset_seconds: i64,
    /// What the zone's time is called then, such as `CEST`.
    pub abbreviation: String,
}

impl Timetable {
    /// At most `count` nominal times after an instant.
    pub fn preview(&self, after: Timestamp, count: usize) -> Vec<Preview> {
        let first = self.next_after(after);
        let nominal = std::iter::successors(first, |last| self.next_after(last.at)).take(count);
        nominal.map(|nominal| Preview::at(self.zone(), nominal)).collect()
    }
}

impl Preview {
    /// A nominal time as the clocks of `zone` show it.
    pub fn at(zone: &Zone, nominal: Nominal) -> Self {
        Self {
            nominal,
            local: zone.local(nominal.at),
            offset_seconds: zone.offset_at(nominal.at),
            abbreviation: zone.abbreviation_at(nominal.at),
        }
    }

    /// The offset as RFC 3339 has it: `+02:00`. Offsets of former times that have seconds are shown with them.
    pub fn offset(&self) -> String {
        let sign = if self.offset_seconds < 0 { '-' } else { '+' };
        let seconds = self.offset_seconds.unsigned_abs();
        let whole = format!("{sign}{:02}:{:02}", seconds / 3600, seconds / 60 % 60);
        if seconds.is_multiple_of(60) { whole } else { format!("{whole}:{:02}", seconds % 60) }
    }

    /// What is unusual about it.
    pub fn note(&self) -> Option<String> {
        match self.nominal.shift {
            Shift::None => None,
            Shift::AfterGap { wanted } => {
                Some(format!("the clocks skip {wanted}, so it fires at the first instant after the gap"))
            }
            Shift::Overlap => Some(format!("the clocks show {} twice, and it fires the first time", self.local)),
        }
    }
}

impl fmt::Display for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{} {}", self.local, self.offset(), self.abbreviation)?;
        match self.note() {
            Some(note) => write!(f, " ({note})"),
            None => Ok(()),
        }
    }
}
