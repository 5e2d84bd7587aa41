//! What becomes of messages that could not be handled: dispositions, and the policy of a consumer that they follow.

use std::fmt;
use std::time::Duration;

use crate::{Error, Kind, MessageId, Result, Timestamp};

/// The longest text of a failure in bytes: 8 KiB.
pub const MAX_FAILURE: usize = 8 << 10;

/// How long a computed pause between two attempts gets at most, unless the policy's first one is longer: 1 h.
pub const LONGEST_BACKOFF: Duration = Duration::from_secs(60 * 60);

/// For engines: how many parked messages of one key become due at once when its head is out of the way.
pub const UNPARKED: usize = 1_000;

/// How long from now something is to happen: 0 to 365 days, in whole microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Delay(Duration);

impl Delay {
    /// The longest delay.
    pub const MAX: Delay = Delay(Duration::from_secs(365 * 24 * 60 * 60));

    /// Checks and takes a delay; parts of a microsecond are dropped.
    ///
    /// # Errors
    /// `invalid_input` when it is longer than 365 days.
    pub fn new(delay: Duration) -> Result<Self> {
        if delay <= Self::MAX.0 {
            return Ok(Self(Duration::from_micros(delay.as_micros() as u64)));
        }
        Err(Error::invalid(format!("cannot use `{delay:?}` as a delay"), "allowed are 0 to 365 days")
            .with("argument", "delay"))
    }

    /// The delay as a duration.
    pub const fn get(self) -> Duration {
        self.0
    }
}

/// What went wrong, for people: any text of at most [`MAX_FAILURE`] bytes, several lines if need be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureText(String);

impl FailureText {
    /// Checks and takes the text.
    ///
    /// # Errors
    /// `invalid_input` when it is blank or holds a NUL; `limit_exceeded` when it is longer than [`MAX_FAILURE`].
    pub fn new(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        if text.len() > MAX_FAILURE {
            return Err(Error::new(
                Kind::LimitExceeded,
                format!("cannot keep the text of a failure of `{}` bytes", text.len()),
            )
            .with("limit", MAX_FAILURE)
            .hinted("a text may have 8192 bytes; keep its end, where the cause usually stands"));
        }
        if text.trim().is_empty() || text.contains('\0') {
            return Err(Error::invalid(
                "cannot use the text of a failure: it is blank or holds a NUL",
                "allowed is any other text",
            )
            .with("argument", "reason"));
        }
        Ok(Self(text))
    }

    /// The text as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FailureText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a failed message means for the later ones of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnFailure {
    /// Nothing: they go on.
    #[default]
    Skip,
    /// They wait until it is acked or dead, and follow in order. Other keys of the slot go on.
    Pause,
}

impl OnFailure {
    /// The stable name: `skip` or `pause`.
    pub const fn as_str(self) -> &'static str {
        match self {
            OnFailure::Skip => "skip",
            OnFailure::Pause => "pause",
        }
    }
}

impl std::str::FromStr for OnFailure {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "skip" => Ok(OnFailure::Skip),
            "pause" => Ok(OnFailure::Pause),
            other => Err(Error::invalid(
                format!("cannot use `{}` as a failure policy", other.escape_debug()),
                "allowed are `skip` and `pause`",
            )
            .with("argument", "on_failure")),
        }
    }
}

/// How a consumer treats failures. What exists is within the ranges.
///
/// ```
/// use std::time::Duration;
/// use fencepost_core::{FailurePolicy, OnFailure};
///
/// let policy = FailurePolicy::default()
///     .on_failure(OnFailure::Pause)
///     .max_attempts(3)?
///     .backoff(Duration::from_millis(250))?;
/// assert_eq!(policy.get_max_attempts(), 3);
/// # Ok::<_, fencepost_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailurePolicy {
    on_failure: OnFailure,
    max_attempts: u32,
    max_crashes: u32,
    backoff: Duration,
}

impl Default for FailurePolicy {
    /// Skip, 10 attempts, 5 crashes, a backoff from 1 s.
    fn default() -> Self {
        Self { on_failure: OnFailure::Skip, max_attempts: 10, max_crashes: 5, backoff: Duration::from_secs(1) }
    }
}

impl FailurePolicy {
    /// Sets what a failed message means for the later ones of its key.
    #[must_use]
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Sets how often a message is tried before it is a dead letter.
    ///
    /// # Errors
    /// `invalid_input` outside 1 ..= 1,000.
    pub fn max_attempts(mut self, attempts: i64) -> Result<Self> {
        self.max_attempts = within("max_attempts", attempts, 1_000)?;
        Ok(self)
    }

    /// Sets how many owners may lose a batch by expiry before its messages are handed out one by one.
    ///
    /// # Errors
    /// `invalid_input` outside 1 ..= 100.
    pub fn max_crashes(mut self, crashes: i64) -> Result<Self> {
        self.max_crashes = within("max_crashes", crashes, 100)?;
        Ok(self)
    }

    /// Sets the longest pause after a first failure. It doubles with every further one, up to [`LONGEST_BACKOFF`].
    ///
    /// # Errors
    /// `invalid_input` outside 1 ms ..= 24 h.
    pub fn backoff(mut self, backoff: Duration) -> Result<Self> {
        if !(Duration::from_millis(1)..=Duration::from_secs(24 * 60 * 60)).contains(&backoff) {
            return Err(Error::invalid(format!("cannot use `{backoff:?}` as a backoff"), "allowed are 1 ms to 24 h")
                .with("argument", "backoff"));
        }
        self.backoff = Duration::from_micros(backoff.as_micros() as u64);
        Ok(self)
    }

    /// What a failed message means for the later ones of its key.
    pub fn get_on_failure(&self) -> OnFailure {
        self.on_failure
    }

    /// How often a message is tried before it is a dead letter.
    pub fn get_max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// How many owners may lose a batch by expiry before its messages are handed out one by one.
    pub fn get_max_crashes(&self) -> u32 {
        self.max_crashes
    }

    /// The longest pause after a first failure.
    pub fn get_backoff(&self) -> Duration {
        self.backoff
    }

    /// Whether failed messages hold up the later ones of their key.
    pub fn pauses(&self) -> bool {
        self.on_failure == OnFailure::Pause
    }

    /// The pause after the `failures`th failure: exponential backoff with full jitter, so that messages which failed together do not
    /// come back together. `random` is uniform over all its values.
    pub fn pause_after(&self, failures: u32, random: u64) -> Duration {
        let doubled = self.backoff.saturating_mul(1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX));
        let longest = doubled.min(LONGEST_BACKOFF.max(self.backoff)).as_micros();
        Duration::from_micros((((longest + 1) * u128::from(random)) >> 64) as u64)
    }

    /// For engines: what a nack makes of a message that failed `failures` times before.
    pub fn judge(&self, failures: u32, retry_after: Option<Delay>, now: Timestamp, random: u64) -> Disposition {
        let failed = failures.saturating_add(1);
        if failed >= self.max_attempts {
            return Disposition::Dead(DeadCause::Attempts);
        }
        let pause = retry_after.map_or_else(|| self.pause_after(failed, random), Delay::get);
        Disposition::Retry { due_at: now + pause }
    }
}

fn within(argument: &'static str, number: i64, most: u32) -> Result<u32> {
    match u32::try_from(number) {
        Ok(found) if (1..=most).contains(&found) => Ok(found),
        _ => Err(Error::invalid(format!("cannot use `{number}` as {argument}"), format!("allowed are 1 to {most}"))
            .with("argument", argument)),
    }
}

/// What was decided about a message of an open batch. It takes effect when the batch is acked; the last one decided counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// It failed and comes again; an attempt is spent.
    Retry {
        /// When it is due.
        due_at: Timestamp,
    },
    /// It comes again; no attempt is spent.
    Snooze {
        /// When it is due.
        due_at: Timestamp,
    },
    /// It becomes a dead letter.
    Dead(DeadCause),
    /// It was not run, because an earlier message of its key comes again first.
    Withdrawn,
}

/// Why a message is a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeadCause {
    /// It failed as often as the policy allows.
    Attempts,
    /// Its handler said that it can never succeed.
    Rejected,
    /// Handed out alone, it ended two owners.
    Crashes,
}

impl DeadCause {
    /// Every cause.
    pub const ALL: [DeadCause; 3] = [DeadCause::Attempts, DeadCause::Rejected, DeadCause::Crashes];

    /// The stable name: `attempts`, `rejected` or `crashes`.
    pub const fn as_str(self) -> &'static str {
        match self {
            DeadCause::Attempts => "attempts",
            DeadCause::Rejected => "rejected",
            DeadCause::Crashes => "crashes",
        }
    }
}

/// What a nack says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Failure {
    /// When to try again; the consumer's backoff unless said.
    pub retry_after: Option<Delay>,
    /// What went wrong.
    pub reason: Option<FailureText>,
}

impl Failure {
    /// A failure of which something is known.
    pub fn because(reason: FailureText) -> Self {
        Self { retry_after: None, reason: Some(reason) }
    }

    /// Sets when to try again.
    #[must_use]
    pub fn retry_after(mut self, delay: Delay) -> Self {
        self.retry_after = Some(delay);
        self
    }
}

/// What a nack did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nacked {
    /// Whether the message comes again.
    pub outcome: NackOutcome,
    /// The later messages of its key in the batch, which must not be run: they come again after it. Only under
    /// [`OnFailure::Pause`].
    pub withdrawn: Vec<MessageId>,
}

/// What a nack makes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NackOutcome {
    /// It comes again.
    Retry {
        /// When it is due.
        due_at: Timestamp,
    },
    /// It is out of attempts and becomes a dead letter.
    Dead,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_an_hour_and_jitter_takes_all_of_it() {
        let policy = FailurePolicy::default();
        let longest = |failures| policy.pause_after(failures, u64::MAX);
        assert_eq!([1, 2, 3].map(longest), [1, 2, 4].map(Duration::from_secs));
        assert_eq!(longest(60), LONGEST_BACKOFF);
        assert_eq!(policy.pause_after(3, 0), Duration::ZERO);
        assert_eq!(policy.pause_after(3, 1 << 63).as_secs(), 2);
        let slow = policy.backoff(Duration::from_secs(7_200)).unwrap();
        assert_eq!(slow.pause_after(9, u64::MAX), Duration::from_secs(7_200));
    }

    #[test]
    fn the_last_attempt_is_dead_and_the_one_before_is_not() {
        let policy = FailurePolicy::default().max_attempts(3).unwrap();
        let now = Timestamp::from_micros(1_000_000);
        let soon = Some(Delay::new(Duration::from_secs(1)).unwrap());
        assert_eq!(policy.judge(1, soon, now, 0), Disposition::Retry { due_at: Timestamp::from_micros(2_000_000) });
        assert_eq!(policy.judge(2, soon, now, 0), Disposition::Dead(DeadCause::Attempts));
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let policy = FailurePolicy::default();
        for bad in [0, -1, 1_001, i64::MIN] {
            assert_eq!(policy.max_attempts(bad).unwrap_err().kind(), Kind::InvalidInput);
        }
        assert_eq!(policy.max_crashes(101).unwrap_err().fact("argument"), Some("max_crashes"));
        assert_eq!(policy.backoff(Duration::ZERO).unwrap_err().kind(), Kind::InvalidInput);
        assert_eq!(Delay::new(Delay::MAX.get() + Duration::from_secs(1)).unwrap_err().kind(), Kind::InvalidInput);
        assert_eq!(FailureText::new("x".repeat(MAX_FAILURE + 1)).unwrap_err().kind(), Kind::LimitExceeded);
        assert_eq!(FailureText::new(" \n").unwrap_err().kind(), Kind::InvalidInput);
        assert_eq!("stop".parse::<OnFailure>().unwrap_err().kind(), Kind::InvalidInput);
    }
}
