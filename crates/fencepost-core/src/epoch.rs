//! Fencing tokens: numbers that only rise and never repeat within a store.

use std::fmt;

use crate::{Error, Kind, Result, Timestamp};

/// The fencing token of one grant. Of two epochs of one store the later grant's is higher, across release, drop, re-creation,
/// restart and restore. Below 2^53, so it survives JSON and JavaScript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(i64);

impl Epoch {
    /// Epochs are below this: 2^53.
    pub const LIMIT: i64 = 1 << 53;

    /// Checks and takes an epoch that a caller presents.
    ///
    /// # Errors
    /// `invalid_input` outside 1 ..= 2^53 − 1.
    pub fn new(epoch: i64) -> Result<Self> {
        if (1..Self::LIMIT).contains(&epoch) {
            return Ok(Self(epoch));
        }
        Err(Error::invalid(
            format!("cannot use `{epoch}` as an epoch"),
            "an epoch is the number of a grant: 1 to 9007199254740991",
        )
        .with("argument", "epoch"))
    }

    /// The number.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The epoch of the next grant: above the store's counter, above the row's last epoch, and not below the clock.
    ///
    /// The clock keeps epochs rising when a store is restored from an old backup, whose counter would repeat; the counter keeps
    /// them rising when the clock was set back.
    ///
    /// # Errors
    /// `limit_exceeded` at 2^53 (in the year 2255).
    pub fn next(counter: i64, last: Option<Epoch>, now: Timestamp) -> Result<Self> {
        let next = (counter + 1).max(last.map_or(0, |epoch| epoch.0 + 1)).max(now.as_micros());
        if next < Self::LIMIT {
            return Ok(Self(next.max(1)));
        }
        Err(Error::new(Kind::LimitExceeded, "cannot grant: the store's epochs are used up")
            .hinted("the clock of the host or the store's counter is past the year 2255; set the clock right"))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_is_above_counter_row_and_clock() {
        let at = Timestamp::from_micros;
        assert_eq!(Epoch::next(41, None, at(7)).unwrap().get(), 42);
        assert_eq!(Epoch::next(41, Some(Epoch(99)), at(7)).unwrap().get(), 100);
        assert_eq!(Epoch::next(41, Some(Epoch(99)), at(500)).unwrap().get(), 500);
        assert_eq!(Epoch::next(0, None, at(-5)).unwrap().get(), 1);
    }

    #[test]
    fn epochs_end_below_two_to_the_53() {
        assert_eq!(Epoch::next(Epoch::LIMIT - 1, None, Timestamp::default()).unwrap_err().kind(), Kind::LimitExceeded);
        for bad in [0, -1, Epoch::LIMIT, i64::MAX] {
            assert_eq!(Epoch::new(bad).unwrap_err().kind(), Kind::InvalidInput);
        }
    }
}
