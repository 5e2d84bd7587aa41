//! Messages of 200 bytes that carry the moment they were made.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Outcome;

/// Bytes of a message.
const SIZE: usize = 200;

/// Digits of the moment, in nanoseconds.
const DIGITS: usize = 20;

/// A message made now.
pub fn message() -> String {
    format!("{:0DIGITS$}{}", now().as_nanos(), "x".repeat(SIZE - DIGITS))
}

/// How long ago `message` was made, maybe by another process of this machine.
pub(crate) fn age(message: &str) -> Outcome<Duration> {
    let made = message.get(..DIGITS).ok_or("a message begins with the moment it was made")?.parse()?;
    Ok(now().saturating_sub(Duration::from_nanos(made)))
}

/// The wall clock, as two processes share no other that the standard library can read. A step of it shows as an outlier.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
