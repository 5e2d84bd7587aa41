//! What happened in the show, in numbers.

use std::time::Duration;

use crate::printer::Printer;

/// What happened, in numbers.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Messages sent.
    pub sent: u64,
    /// Messages delivered again.
    pub redelivered: u64,
    /// Calls refused because of the epoch.
    pub fenced: u64,
    /// Slots taken over with an open batch from an owner that had lost them.
    pub takeovers: u64,
    /// Workers killed, and paused.
    pub faults: (u32, u32),
    /// Workers that were to be killed, and paused.
    pub planned: (u32, u32),
    /// The whole show.
    pub elapsed: Duration,
    /// From the first send to the last commit before anybody had to wait for a TTL.
    pub busy: Option<(Duration, u64)>,
    /// Where it goes.
    pub printer: Option<Printer>,
}
