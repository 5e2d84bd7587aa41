//! The clock by which an engine on one host decides: the wall clock, kept from running backwards.

use std::sync::{Arc, Mutex};

use crate::{BootInstant, Clock, Timestamp};

/// The engine's clock of a store that lives on one host.
///
/// It shows the wall clock unless that was stepped back; then it goes on at the rate of the clock that counts suspend, from the
/// highest instant it has shown or found in the store, until the wall clock has caught up. So no lease is granted twice because
/// time was turned back, and none becomes immortal either.
#[derive(Debug)]
pub struct EngineClock {
    clock: Arc<dyn Clock>,
    floor: Mutex<(Timestamp, BootInstant)>,
}

impl EngineClock {
    /// An engine clock over the host's clocks.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let floor = (clock.wall(), clock.boot());
        Self { clock, floor: Mutex::new(floor) }
    }

    /// The instant now, not before `stored`, the highest instant that the store has recorded.
    ///
    /// Read it after the store's lock is held: a grant that waited for the lock must not be born old.
    pub fn now(&self, stored: Timestamp) -> Timestamp {
        let mut floor = self.floor.lock().expect("no panic while the floor is held");
        let (wall, boot) = (self.clock.wall(), self.clock.boot());
        let now = wall.max(stored).max(floor.0 + boot.since(floor.1));
        *floor = (now, boot);
        now
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
        let before = engine.now(Timestamp::default());
        host.step_wall(-3_600_000_000);
        assert_eq!(engine.now(Timestamp::default()), before);
        host.advance(Duration::from_secs(5));
        assert_eq!(engine.now(Timestamp::default()), before + Duration::from_secs(5));
    }

    #[test]
    fn what_another_process_recorded_is_not_undercut() {
        let engine = EngineClock::new(Arc::new(ManualClock::default()));
        let ahead = engine.now(Timestamp::default()) + Duration::from_secs(60);
        assert_eq!(engine.now(ahead), ahead);
        assert_eq!(engine.now(Timestamp::default()), ahead);
    }
}
