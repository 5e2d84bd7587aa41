//! What becomes of nominal times that nobody fired when they were due. Pure arithmetic, whose cost does not grow with how long nobody
//! was there.

use std::time::Duration;

use fencepost_core::Timestamp;
use fencepost_core::schedule::{Misfire, NextFire};

use crate::timetable::{Timetable, before};

/// How late one nominal time may fire without being a misfire: 1 minute, longer than it takes another leader to be elected.
pub const GRACE: Duration = Duration::from_secs(60);

/// What fires now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fires {
    /// These nominal times, rising.
    pub fires: Vec<Timestamp>,
    /// So many are left out.
    pub missed: u64,
    /// The last nominal time that is dealt with; none while nothing is due.
    pub last: Option<Timestamp>,
}

/// Judges what is due at `now`: `first`, and the nominal times after it.
///
/// One that is less than [`GRACE`] late is no misfire and fires under every policy, unless the next one is due already.
pub fn judge(
    timetable: &Timetable,
    misfire: Misfire,
    first: NextFire,
    now: Timestamp,
    due_at: impl Fn(Timestamp) -> Timestamp,
) -> Fires {
    if now < first.due_at {
        return Fires { fires: Vec::new(), missed: 0, last: None };
    }
    let last = last_due(timetable, first, now, due_at);
    let due = timetable.count(first.nominal_at, last).saturating_add(1);
    let is_misfire = due > 1 || now.since(first.due_at) >= GRACE;
    let wanted = match misfire {
        _ if !is_misfire => 1,
        Misfire::Skip => 0,
        Misfire::One => 1,
        Misfire::All(cap) => due.min(cap.into()),
    };
    let mut fires = latest(timetable, first.nominal_at, last, wanted);
    fires.reverse();
    Fires { missed: due - fires.len() as u64, fires, last: Some(last) }
}

/// The last nominal time that is due. What comes before another one is due before it, so only the very last may be waiting yet.
fn last_due(
    timetable: &Timetable,
    first: NextFire,
    now: Timestamp,
    due_at: impl Fn(Timestamp) -> Timestamp,
) -> Timestamp {
    let is_later = |at: &Timestamp| *at > first.nominal_at;
    let last = timetable.preceding(now).filter(is_later);
    let last =
        last.and_then(|at| if due_at(at) <= now { Some(at) } else { timetable.preceding(before(at)).filter(is_later) });
    last.unwrap_or(first.nominal_at)
}

/// The latest nominal times from `last` back to `first`, which counts as one even if the rules of its zone have changed since.
fn latest(timetable: &Timetable, first: Timestamp, last: Timestamp, wanted: u64) -> Vec<Timestamp> {
    let earlier =
        |at: &Timestamp| (*at > first).then(|| timetable.preceding(before(*at)).map_or(first, |at| at.max(first)));
    std::iter::successors(Some(last), earlier).take(usize::try_from(wanted).unwrap_or(usize::MAX)).collect()
}
