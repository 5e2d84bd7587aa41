//! Time: instants, durations with documented ranges, and the only place that reads the host's clocks.

use std::fmt;
use std::ops::Add;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{Error, Result};

/// An instant of the engine's clock in microseconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The instant `micros` microseconds after 1970-01-01 UTC.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970-01-01 UTC.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl std::str::FromStr for Timestamp {
    type Err = Error;

    /// A time in RFC 3339: `2026-01-31T08:00:00Z`, `2026-01-31T09:00:00+01:00`.
    fn from_str(text: &str) -> Result<Self> {
        parse_rfc3339(text).map(Timestamp).ok_or_else(|| {
            Error::invalid(
                format!("cannot use `{}` as a time", text.escape_debug()),
                "allowed is RFC 3339 since 1970, such as 2026-01-31T08:00:00Z or 2026-01-31T09:00:00+01:00",
            )
            .with("argument", "time")
        })
    }
}

/// Microseconds since 1970 of a time with `Z` or an offset in hours and minutes.
fn parse_rfc3339(text: &str) -> Option<i64> {
    let text = text.to_ascii_uppercase();
    let (local, offset) = match text.strip_suffix('Z') {
        Some(local) => (local, 0),
        None => {
            let (local, offset) = text.split_at_checked(text.len().checked_sub(6)?)?;
            let (hours, minutes) = offset.get(1..)?.split_once(':')?;
            let number =
                |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<i64>().ok())?;
            let (hours, minutes) = (number(hours)?, number(minutes)?);
            let sign = match offset.as_bytes()[0] {
                b'+' => 1,
                b'-' => -1,
                _ => return None,
            };
            (local, (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60_000_000)?)
        }
    };
    let at = humantime::parse_rfc3339(&format!("{local}Z")).ok()?;
    let since = i64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_micros()).ok()?;
    since.checked_sub(offset).filter(|micros| *micros >= 0)
}

/// An instant by the engine's clock, given or counted from when the call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Then.
    At(Timestamp),
    /// So long after the call.
    After(Duration),
}

impl Moment {
    /// The instant, seen from `now`.
    pub fn seen_from(self, now: Timestamp) -> Timestamp {
        match self {
            Moment::At(at) => at,
            Moment::After(duration) => now + duration,
        }
    }
}

impl From<Timestamp> for SystemTime {
    fn from(at: Timestamp) -> SystemTime {
        UNIX_EPOCH + at.since(Timestamp(0))
    }
}

/// How long a grant lasts without renewal: 100 ms to 24 hours.
///
/// ```
/// use std::time::Duration;
/// use fencepost_core::Ttl;
///
/// assert!(Ttl::new(Duration::from_secs(30)).is_ok());
/// assert!(Ttl::new(Duration::ZERO).is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(Duration);

impl Ttl {
    /// The shortest TTL.
    pub const MIN: Ttl = Ttl(Duration::from_millis(100));
    /// The longest TTL.
    pub const MAX: Ttl = Ttl(Duration::from_secs(24 * 60 * 60));
    /// The TTL of a claim that names none: 30 s.
    pub const DEFAULT: Ttl = Ttl(Duration::from_secs(30));

    /// Checks and takes a TTL; parts of a microsecond are dropped.
    ///
    /// # Errors
    /// `invalid_input` outside 100 ms ..= 24 h.
    pub fn new(ttl: Duration) -> Result<Self> {
        if (Self::MIN.0..=Self::MAX.0).contains(&ttl) {
            return Ok(Ttl(Duration::from_micros(ttl.as_micros() as u64)));
        }
        Err(Self::refusal(format!("{ttl:?}")))
    }

    /// The same from microseconds as they stand in storage and on wires, where they may be negative.
    ///
    /// # Errors
    /// `invalid_input` outside 100 ms ..= 24 h.
    pub fn from_micros(micros: i64) -> Result<Self> {
        match u64::try_from(micros) {
            Ok(micros) => Self::new(Duration::from_micros(micros)),
            Err(_) => Err(Self::refusal(format!("{micros}µs"))),
        }
    }

    fn refusal(shown: String) -> Error {
        Error::invalid(format!("cannot use `{shown}` as a ttl"), "allowed are 100 ms to 24 h").with("argument", "ttl")
    }

    /// The TTL as a duration.
    pub const fn get(self) -> Duration {
        self.0
    }

    /// The TTL in microseconds.
    pub const fn as_micros(self) -> i64 {
        self.0.as_micros() as i64
    }
}

impl Default for Ttl {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Debug for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// An instant of the host's clock that counts the time in suspend and never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BootInstant(Duration);

impl BootInstant {
    /// The instant `since_boot` after the host started.
    pub const fn from_boot(since_boot: Duration) -> Self {
        Self(since_boot)
    }

    /// The time since the host started.
    pub const fn since_boot(self) -> Duration {
        self.0
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub fn since(self, earlier: BootInstant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for BootInstant {
    type Output = BootInstant;

    fn add(self, duration: Duration) -> BootInstant {
        BootInstant(self.0 + duration)
    }
}

/// Until when a caller may believe in a grant: anchored *before* the request was sent, less a margin, so that a slow reply
/// never stretches the belief.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(BootInstant);

impl Deadline {
    /// The deadline of a grant of `ttl` whose request was sent at `sent`, `margin` early.
    pub fn of_request(sent: BootInstant, ttl: Ttl, margin: Duration) -> Self {
        Deadline(sent + ttl.get().saturating_sub(margin))
    }

    /// The instant itself.
    pub const fn at(self) -> BootInstant {
        self.0
    }

    /// What is left at `now`; zero when it has passed.
    pub fn left(self, now: BootInstant) -> Duration {
        self.0.since(now)
    }
}

/// Where time comes from. Engines and runtimes are given one, so that tests move time instead of waiting for it.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The host's wall clock, which may be stepped.
    fn wall(&self) -> Timestamp;
    /// The host's clock that counts suspend and is never stepped.
    fn boot(&self) -> BootInstant;
    /// Tells one run of the host from another, so that two instants of [`Clock::boot`] can be compared across processes; 0 when
    /// it cannot be told.
    fn boot_id(&self) -> u64 {
        0
    }
}

/// The clocks of this host: the real-time clock, and CLOCK_BOOTTIME where the system has it.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostClock;

impl Clock for HostClock {
    fn wall(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    fn boot(&self) -> BootInstant {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
        let now = rustix::time::clock_gettime(CLOCK);
        BootInstant(Duration::new(now.tv_sec as u64, now.tv_nsec as u32))
    }

    fn boot_id(&self) -> u64 {
        static ID: OnceLock<u64> = OnceLock::new();
        *ID.get_or_init(|| {
            let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
            let digits: String = text.chars().filter(char::is_ascii_hexdigit).take(15).collect();
            u64::from_str_radix(&digits, 16).unwrap_or(0)
        })
    }
}

/// A clock that stands still until it is moved.
///
/// ```
/// use std::time::Duration;
/// use fencepost_core::{Clock, ManualClock};
///
/// let clock = ManualClock::default();
/// let before = clock.boot();
/// clock.advance(Duration::from_secs(30));
/// assert_eq!(clock.boot().since(before), Duration::from_secs(30));
/// ```
pub struct ManualClock {
    now: Mutex<(Timestamp, BootInstant)>,
    observer: Box<dyn Fn(Timestamp, BootInstant) + Send + Sync>,
}

impl ManualClock {
    /// A clock that shows `wall`.
    pub fn new(wall: Timestamp) -> Self {
        Self { now: Mutex::new((wall, BootInstant::from_boot(Duration::from_secs(1)))), observer: Box::new(|_, _| {}) }
    }

    /// Has `observer` hear of every change, with what both clocks show from now on: it carries them to a clock that lives elsewhere,
    /// such as a server's. Whoever moves this clock goes on once the observer has returned.
    pub fn observed(mut self, observer: impl Fn(Timestamp, BootInstant) + Send + Sync + 'static) -> Self {
        self.observer = Box::new(observer);
        self
    }

    /// Lets time pass on both clocks.
    pub fn advance(&self, duration: Duration) {
        self.change(|(wall, boot)| (wall + duration, boot + duration));
    }

    /// Steps the wall clock alone, forward or back, as an administrator or a time daemon would.
    pub fn step_wall(&self, micros: i64) {
        self.change(|(wall, boot)| (Timestamp(wall.0.saturating_add(micros)), boot));
    }

    fn change(&self, to: impl FnOnce((Timestamp, BootInstant)) -> (Timestamp, BootInstant)) {
        let mut now = self.now.lock().expect("no panic while the clock is held");
        *now = to(*now);
        // ORDER: under the lock, so that the observer hears of changes in their order.
        (self.observer)(now.0, now.1);
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock").field("now", &self.now).finish_non_exhaustive()
    }
}

impl Default for ManualClock {
    /// Shows 2026-01-01T00:00:00Z.
    fn default() -> Self {
        Self::new(Timestamp(1_767_225_600_000_000))
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> Timestamp {
        self.now.lock().expect("no panic while the clock is held").0
    }

    fn boot(&self) -> BootInstant {
        self.now.lock().expect("no panic while the clock is held").1
    }

    fn boot_id(&self) -> u64 {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn times_are_read_with_any_offset_and_nothing_else_is() {
        let micros = |text: &str| text.parse().map(Timestamp::as_micros).ok();
        assert_eq!(micros("2026-01-31T08:00:00Z"), Some(1_769_846_400_000_000));
        assert_eq!(micros("2026-01-31T09:00:00.5+01:00"), Some(1_769_846_400_500_000));
        assert_eq!(micros("2026-01-31t02:30:00-05:30"), micros("2026-01-31T08:00:00z"));
        for bad in [
            "",
            "2026-01-31",
            "2026-01-31T08:00:00",
            "2026-01-31T08:00:00+1:00",
            "2026-01-31T08:00:00+24:00",
            "é+01:00",
        ] {
            assert_eq!(micros(bad), None, "{bad}");
        }
        assert_eq!(micros("1970-01-01T00:00:00+01:00"), None, "before 1970");
    }

    #[test]
    fn ttl_zero_negative_and_a_year_are_refused() {
        let year = Duration::from_secs(365 * 86_400);
        for refused in [Ttl::new(Duration::ZERO), Ttl::new(year), Ttl::from_micros(-1), Ttl::from_micros(i64::MIN)] {
            assert_eq!(refused.unwrap_err().kind(), Kind::InvalidInput);
        }
        assert_eq!(Ttl::new(Ttl::MIN.get()).unwrap(), Ttl::MIN);
        assert_eq!(Ttl::new(Ttl::MAX.get()).unwrap(), Ttl::MAX);
    }

    #[test]
    fn deadline_is_anchored_before_the_request() {
        let sent = BootInstant::from_boot(Duration::from_secs(10));
        let deadline =
            Deadline::of_request(sent, Ttl::new(Duration::from_secs(3)).unwrap(), Duration::from_millis(500));
        assert_eq!(deadline.left(sent + Duration::from_secs(1)), Duration::from_millis(1500));
        assert_eq!(deadline.left(sent + Duration::from_secs(9)), Duration::ZERO);
    }

    #[test]
    fn an_observer_hears_of_every_change_before_it_returns() {
        let seen = std::sync::Arc::new(Mutex::new(Vec::new()));
        let heard = seen.clone();
        let clock = ManualClock::new(Timestamp(5)).observed(move |wall, boot| heard.lock().unwrap().push((wall, boot)));
        clock.advance(Duration::from_secs(1));
        clock.step_wall(-2);
        let boot = BootInstant::from_boot(Duration::from_secs(2));
        assert_eq!(*seen.lock().unwrap(), [(Timestamp(1_000_005), boot), (Timestamp(1_000_003), boot)]);
    }

    #[test]
    fn host_clocks_advance() {
        let (wall, boot) = (HostClock.wall(), HostClock.boot());
        assert!(wall.as_micros() > 1_700_000_000_000_000);
        assert!(HostClock.boot() >= boot);
    }
}
