//! How long after its nominal time a message is sent: the same whoever asks, spread over many schedules, and never past the next
//! nominal time.

use std::time::Duration;

use fencepost_core::{ScheduleName, Timestamp};
use sha2::{Digest, Sha256};

/// When a nominal time is due that is followed by another one, if it is.
///
/// INVARIANT: it is due before the next one is, so that nominal times are due in their order, however long the jitter.
pub fn due_at(name: &ScheduleName, at: Timestamp, jitter: Duration, next: Option<Timestamp>) -> Timestamp {
    let room = next.map_or(jitter, |next| next.since(at).saturating_sub(Duration::from_micros(1)));
    let span = jitter.min(room).as_micros();
    let delay = ((span + 1) * u128::from(random(name, at))) >> 64;
    at + Duration::from_micros(delay as u64)
}

/// The first 64 bits of the SHA-256 of the name and the nominal time in microseconds, big end first.
fn random(name: &ScheduleName, at: Timestamp) -> u64 {
    let hash = Sha256::new().chain_update(name.as_str()).chain_update(at.as_micros().to_be_bytes()).finalize();
    hash.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}
