//! Pauses between two looks at a database: growing, jittered, within a bound.

use std::time::{Duration, Instant};

use fencepost_core::{Result, Retry, random_u64};

use crate::gate::Readiness;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// How long to wait before the next look.
#[derive(Debug)]
pub(crate) struct Pauses {
    end: Instant,
    next: Duration,
}

impl Pauses {
    pub(crate) fn within(bound: Duration) -> Self {
        let now = Instant::now();
        // A bound that no clock reaches is a year.
        Self { end: now.checked_add(bound).unwrap_or(now + Duration::from_secs(31_536_000)), next: FIRST }
    }

    /// The pause before the same is asked again; none when this answer is the last one, since the bound is over or waiting changes nothing.
    pub(crate) fn after(&mut self, answer: &Result<Readiness>) -> Result<Option<Duration>> {
        let may_change = match answer {
            Ok(readiness) => readiness.may_become_ready(),
            Err(error) => matches!(error.retry(), Retry::Now | Retry::Backoff),
        };
        Ok(self.next()?.filter(|_| may_change))
    }

    /// The next pause, between half of what it may be and all of it; none when the bound is over.
    fn next(&mut self) -> Result<Option<Duration>> {
        let left = self.end.saturating_duration_since(Instant::now());
        let most = u64::try_from(self.next.as_micros()).unwrap_or(u64::MAX);
        let pause = Duration::from_micros(most / 2 + random_u64()? % (most / 2 + 1));
        self.next = (self.next * 2).min(LONGEST);
        Ok((!left.is_zero()).then_some(pause.min(left)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_with_the_bound() {
        assert_eq!(Pauses::within(Duration::ZERO).next().unwrap(), None);
        let mut pauses = Pauses::within(Duration::from_secs(60));
        for most in [50, 100, 200, 400, 800, 1600, 2000, 2000] {
            let pause = pauses.next().unwrap().unwrap();
            assert!((Duration::from_millis(most / 2)..=Duration::from_millis(most)).contains(&pause), "{pause:?}");
        }
        assert!(Pauses::within(Duration::MAX).next().unwrap().is_some());
    }
}
