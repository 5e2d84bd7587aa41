//! Registering sleepers.

use fencepost_core::{Topic, WakeReceiver, Wakeups};

use crate::store::PostgresStore;

impl Wakeups for PostgresStore {
    fn wakes(&self, topic: &Topic) -> WakeReceiver {
        self.hub().receiver(topic)
    }
}
