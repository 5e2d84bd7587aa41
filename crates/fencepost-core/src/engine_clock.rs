//! The clock by which an engine on one host decides: the wall clock, kept from running backwards.

use std::sync::{Arc, Mutex};

use crate::{BootInstant, Clock, Timestamp};

/// The engine's clock of a store that lives on one host.
///
/// It shows the wall clock unless that was stepped back; then it goes on at the rate of the clock that counts suspend, from the
/// highest instant that was shown here or recorded in the store by any process. So no lease is granted twice because time was
/// turned back, and none becomes immortal either.
#[derive(Debug)]
pub struct EngineClock {
    clock: Arc<dyn Clock>,
    floor: Mutex<(Timestamp, BootInstant)>,
}

/// An instant as a store records it: by the engine's clock and, for who reads it in the same run of the host, by the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recorded {
    /// The instant.
    pub at: Timestamp,
    /// The same by the clock that counts suspend.
    pub boot: BootInstant,
    /// The run of the host in which it was recorded.
    pub boot_id: u64,
}

impl EngineClock {
    /// An engine clock over the host's clocks.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let floor = (clock.wall(), clock.boot());
        Self { clock, floor: Mutex::new(floor) }
    }

    /// The instant now, not before `recorded`, the highest instant in the store, with the time that has passed since.
    ///
    /// Read it after the store's lock is held: a grant that waited for the lock must not be born old.
    pub fn now(&self, recorded: Recorded) -> Timestamp {
        let mut floor = self.floor.lock().expect("no panic while the floor is held");
        let (wall, boot) = (self.clock.wall(), self.clock.boot());
        let same_run = recorded.boot_id != 0 && recorded.boot_id == self.clock.boot_id();
        let stored = if same_run { recorded.at + boot.since(recorded.boot) } else { recorded.at };
        let now = wall.max(stored).max(floor.0 + boot.since(floor.1));
        *floor = (now, boot);
        now
    }

    /// `at` as a store records it.
    pub fn record(&self, at: Timestamp) -> Recorded {
        Recorded { at, boot: self.clock.boot(), boot_id: self.clock.boot_id() }
    }

    /// The clocks beneath.
    pub fn host(&self) -> &Arc<dyn Clock> {
        &self.clock
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ManualClock;

    #[test]
    fn a_wall_clock_stepped_back_neither_turns_time_back_nor_stops_it() {
        let host = Arc::new(ManualClock::default());
        let engine = EngineClock::new(host.clone());
        let before = engine.now(Recorded::default());
        host.step_wall(-3_600_000_000);
        assert_eq!(engine.now(Recorded::default()), before);
        host.advance(Duration::from_secs(5));
        assert_eq!(engine.now(Recorded::default()), before + Duration::from_secs(5));
    }

    #[test]
    fn what_another_process_recorded_is_not_undercut() {
        let engine = EngineClock::new(Arc::new(ManualClock::default()));
        let ahead = engine.now(Recorded::default()) + Duration::from_secs(60);
        assert_eq!(engine.now(Recorded { at: ahead, ..Recorded::default() }), ahead);
        assert_eq!(engine.now(Recorded::default()), ahead);
    }

    #[test]
    fn a_process_that_starts_after_a_step_back_knows_how_much_time_has_passed() {
        let host = Arc::new(ManualClock::default());
        let first = EngineClock::new(host.clone());
        let recorded = first.record(first.now(Recorded::default()));
        host.advance(Duration::from_secs(100));
        host.step_wall(-3_600_000_000);
        host.advance(Duration::from_secs(5));
        let second = EngineClock::new(host);
        assert_eq!(second.now(recorded), recorded.at + Duration::from_secs(105));
        assert_eq!(first.now(recorded), second.now(recorded), "and both tell the same time");
    }
}
