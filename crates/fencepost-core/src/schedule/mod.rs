//! Schedules: what is sent when, as engines keep it. They know no cron: what a spec means is for whoever fires, who tells the engine
//! which nominal times fire now and which one comes next.

mod step;
mod stored;

use std::fmt;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use crate::{
    Error, Key, Kind, LeaseToken, MAX_FAILURE, MAX_PAYLOAD, MessageId, MessageKind, NewMessage, QueueName, Result,
    ScheduleName, Timestamp, Ttl,
};

pub use step::{Judged, judge_put, judge_tick};
pub use stored::StoredSchedule;

/// The header that names the schedule of a fired message.
pub const SCHEDULE_HEADER: &str = "fencepost-schedule";

/// The header that tells a fired message's nominal time, in RFC 3339 and UTC.
pub const NOMINAL_TIME_HEADER: &str = "fencepost-nominal-time";

/// How many fires of a schedule are remembered, the latest.
pub const FIRES_KEPT: usize = 100;

/// How many nominal times one tick fires at most.
pub const MAX_FIRES: usize = 10_000;

/// How many ticks one call takes at most, and how many schedules one look returns.
pub const MAX_TICKS: usize = 10_000;

/// How many bytes the payloads have together that one look returns, unless a single one is larger.
pub const LOOK_BYTES: usize = 4 << 20;

/// The longest spec in bytes.
pub const MAX_SPEC: usize = 1_024;

/// The longest jitter: 1 day.
pub const LONGEST_JITTER: Duration = Duration::from_secs(24 * 60 * 60);

/// The last instant that a schedule may name: the end of the year 9999.
const LATEST: Timestamp = Timestamp::from_micros(253_402_300_799_999_999);

/// What happens to nominal times that nobody fired in time, because no leader was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Misfire {
    /// They are left out.
    Skip,
    /// The latest of them fires.
    #[default]
    One,
    /// The latest of them fire, at most so many: 1 to 10,000.
    All(u32),
}

impl Misfire {
    /// [`Misfire::All`] with the cap that it has unless said: 100.
    pub const ALL: Misfire = Misfire::All(100);
}

impl fmt::Display for Misfire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misfire::Skip => f.write_str("skip"),
            Misfire::One => f.write_str("one"),
            Misfire::All(cap) => write!(f, "all:{cap}"),
        }
    }
}

impl std::str::FromStr for Misfire {
    type Err = Error;

    /// `skip`, `one`, `all`, or `all:CAP`.
    fn from_str(text: &str) -> Result<Self> {
        let cap = |cap: &str| cap.parse().ok().filter(|cap| (1..=MAX_FIRES as u32).contains(cap));
        match text {
            "skip" => Some(Misfire::Skip),
            "one" => Some(Misfire::One),
            "all" => Some(Misfire::ALL),
            other => other.strip_prefix("all:").and_then(cap).map(Misfire::All),
        }
        .ok_or_else(|| {
            Error::invalid(
                format!("cannot use `{}` as a misfire policy", text.escape_debug()),
                "allowed are `skip`, `one`, `all`, and `all:CAP` with a cap of 1 to 10000",
            )
            .with("argument", "misfire")
        })
    }
}

/// What is sent when. Two schedules are the same when all of it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleDefinition {
    /// Which schedule.
    pub name: ScheduleName,
    /// When it fires, as text of 1 to 1,024 bytes that the engine only keeps.
    pub spec: String,
    /// In which time zone, as text of 1 to 255 bytes that the engine only keeps.
    pub zone: String,
    /// Where its messages go.
    pub queue: QueueName,
    /// What sort of message it sends.
    pub kind: MessageKind,
    /// What orders its messages, if anything.
    pub key: Option<Key>,
    /// What it sends.
    pub payload: Vec<u8>,
    /// What happens to nominal times that nobody fired in time.
    pub misfire: Misfire,
    /// Within how long after its nominal time a message is sent; at most [`LONGEST_JITTER`].
    pub jitter: Duration,
    /// Nothing fires before.
    pub from: Option<Timestamp>,
    /// Nothing fires from then on.
    pub until: Option<Timestamp>,
}

impl ScheduleDefinition {
    /// A schedule in UTC whose messages are empty and of the kind `default`, without bounds and without jitter.
    pub fn new(name: ScheduleName, spec: impl Into<String>, queue: QueueName) -> Self {
        Self {
            name,
            spec: spec.into(),
            zone: "UTC".into(),
            queue,
            kind: MessageKind::default(),
            key: None,
            payload: Vec::new(),
            misfire: Misfire::default(),
            jitter: Duration::ZERO,
            from: None,
            until: None,
        }
    }

    /// Checks the ranges. Whether spec and zone mean something is not asked here.
    ///
    /// # Errors
    /// `invalid_input`; `limit_exceeded` when the payload is larger than [`MAX_PAYLOAD`].
    pub fn check(&self) -> Result<()> {
        text("spec", &self.spec, MAX_SPEC)?;
        text("zone", &self.zone, 255)?;
        if self.payload.len() > MAX_PAYLOAD {
            NewMessage::new(self.payload.clone())?;
        }
        if let Misfire::All(cap) = self.misfire
            && !(1..=MAX_FIRES as u32).contains(&cap)
        {
            return Err(Error::invalid(format!("cannot fire at most `{cap}` missed times"), "allowed are 1 to 10000")
                .with("argument", "misfire"));
        }
        if self.jitter > LONGEST_JITTER || !self.jitter.subsec_nanos().is_multiple_of(1_000) {
            return Err(Error::invalid(
                format!("cannot use `{:?}` as a jitter", self.jitter),
                "allowed are 0 to 1 day, in whole microseconds",
            )
            .with("argument", "jitter"));
        }
        for (argument, at) in [("from", self.from), ("until", self.until)] {
            at.map_or(Ok(()), |at| instant(argument, at))?;
        }
        if let (Some(from), Some(until)) = (self.from, self.until)
            && until <= from
        {
            return Err(Error::invalid(
                format!("cannot fire from `{}` until `{}`", nominal_time(from), nominal_time(until)),
                "a schedule ends after it begins, or not at all",
            )
            .with("argument", "until"));
        }
        Ok(())
    }

    /// For engines: whether both fire at the same times, whatever they send.
    pub(crate) fn has_times_of(&self, other: &Self) -> bool {
        let times = |of: &Self| (of.jitter, of.from, of.until);
        self.spec == other.spec && self.zone == other.zone && times(self) == times(other)
    }

    /// For engines: refuses what cannot be put.
    ///
    /// # Errors
    /// As [`ScheduleDefinition::check`] and [`NextFire::check`].
    pub fn check_put(&self, next: Option<NextFire>, anchor_at: Timestamp) -> Result<()> {
        self.check()?;
        instant("anchor_at", anchor_at)?;
        next.map_or(Ok(()), |next| next.check())
    }

    /// For engines: the message of a nominal time.
    ///
    /// # Errors
    /// As [`ScheduleDefinition::check`].
    pub fn message(&self, nominal_at: Timestamp) -> Result<NewMessage> {
        NewMessage::new(self.payload.clone())?
            .key(self.key.clone())
            .kind(self.kind.clone())
            .header(SCHEDULE_HEADER, self.name.as_str())?
            .header(NOMINAL_TIME_HEADER, nominal_time(nominal_at))
    }
}

/// An instant as [`NOMINAL_TIME_HEADER`] tells it: RFC 3339 in UTC, with microseconds only when there are some.
///
/// ```
/// use fencepost_core::{Timestamp, schedule::nominal_time};
///
/// assert_eq!(nominal_time(Timestamp::from_micros(1_767_225_600_000_000)), "2026-01-01T00:00:00Z");
/// assert_eq!(nominal_time(Timestamp::from_micros(1_767_225_600_500_000)), "2026-01-01T00:00:00.500000Z");
/// ```
pub fn nominal_time(at: Timestamp) -> String {
    let at = at.min(LATEST);
    let time = SystemTime::from(at);
    if at.as_micros() % 1_000_000 == 0 {
        humantime::format_rfc3339_seconds(time).to_string()
    } else {
        humantime::format_rfc3339_micros(time).to_string()
    }
}

/// When a schedule fires next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextFire {
    /// The time that the spec names.
    pub nominal_at: Timestamp,
    /// When the message is to be sent: the nominal time, and its jitter.
    pub due_at: Timestamp,
}

/// A message that a schedule has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fired {
    /// For which nominal time.
    pub nominal_at: Timestamp,
    /// When, by the engine's clock.
    pub fired_at: Timestamp,
    /// The message in the schedule's queue.
    pub message: MessageId,
}

/// How one schedule stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleStatus {
    /// What is sent when.
    pub definition: ScheduleDefinition,
    /// Rises with every change of the schedule, a tick included: who judged by an older one judged by what is no more.
    pub revision: i64,
    /// Whether it fires nothing until it is resumed.
    pub is_paused: bool,
    /// From when intervals count.
    pub anchor_at: Timestamp,
    /// When it fires next; none while it is paused, once its last time is over, and while `problem` keeps it from firing.
    pub next: Option<NextFire>,
    /// The last time it fired.
    pub last: Option<Fired>,
    /// How many nominal times nobody fired.
    pub missed: u64,
    /// Why it does not fire, or did not the last time.
    pub problem: Option<String>,
    /// What of it is stored and cannot be read: the definition has something else in its place, and whoever fires stops it.
    pub unreadable: Option<String>,
}

/// What a put did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// It was made.
    Created,
    /// It was there with another definition, or had stopped for a problem, and goes on from what was given.
    Changed,
    /// It was there with the same definition. Nothing was written, and it fires next when it would have.
    Unchanged,
}

/// What is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The instant of the look, by the engine's clock.
    pub now: Timestamp,
    /// The schedules that are due, by when they are, then by name.
    pub schedules: Vec<ScheduleStatus>,
    /// When the first one is due that is not among them.
    pub next_due_at: Option<Timestamp>,
}

/// What one schedule is to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tick {
    /// Which schedule.
    pub name: ScheduleName,
    /// By which revision of it that was judged.
    pub revision: i64,
    /// The nominal times that fire, rising.
    pub fires: Vec<Timestamp>,
    /// How many nominal times are left out.
    pub missed: u64,
    /// What comes next.
    pub next: Option<NextFire>,
    /// Why nothing fires, as when the definition cannot be read. The schedule then stops until it is put anew: no fires, no next.
    pub problem: Option<String>,
}

impl Tick {
    /// For engines: refuses ticks that no schedule could have, and two of one schedule.
    ///
    /// # Errors
    /// `invalid_input`; `limit_exceeded` for more than [`MAX_TICKS`], or more than [`MAX_FIRES`] of one schedule.
    pub fn check(ticks: &[Tick]) -> Result<()> {
        if ticks.len() > MAX_TICKS {
            return Err(Error::new(Kind::LimitExceeded, format!("cannot fire `{}` schedules at once", ticks.len()))
                .with("limit", MAX_TICKS)
                .hinted("fire 10000 at most, and then the others"));
        }
        let mut names: Vec<&ScheduleName> = ticks.iter().map(|tick| &tick.name).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::invalid(
                format!("cannot fire the schedule `{}` twice in one call", twice[0]),
                "a schedule has one tick a call",
            )
            .with("schedule", twice[0]));
        }
        ticks.iter().try_for_each(|tick| tick.check_one().map_err(|error| error.with("schedule", &tick.name)))
    }

    fn check_one(&self) -> Result<()> {
        let Self { name, fires, next, problem, missed, .. } = self;
        if fires.len() > MAX_FIRES {
            return Err(Error::new(
                Kind::LimitExceeded,
                format!("cannot fire `{}` times of the schedule `{name}` at once", fires.len()),
            )
            .with("limit", MAX_FIRES)
            .hinted("fire the latest 10000 at most"));
        }
        let refuse = |why, allowed| Err(Error::invalid(format!("cannot fire the schedule `{name}`: {why}"), allowed));
        fires.iter().try_for_each(|at| instant("fires", *at))?;
        next.map_or(Ok(()), |next| next.check())?;
        if fires.windows(2).any(|pair| pair[0] >= pair[1]) {
            return refuse("its nominal times do not rise", "nominal times come in order, each once");
        }
        if next.is_some_and(|next| fires.last().is_some_and(|last| next.nominal_at <= *last)) {
            return refuse("what comes next is not after what fires", "nominal times rise");
        }
        if i64::try_from(*missed).is_err() {
            return refuse("it missed too much", "allowed are 0 to 9223372036854775807 missed times");
        }
        if let Some(problem) = problem {
            if problem.trim().is_empty() || problem.len() > MAX_FAILURE || problem.contains('\0') {
                return refuse(
                    "the text of its problem is blank, too long, or holds a NUL",
                    "allowed are 1 to 8192 bytes",
                );
            }
            if !fires.is_empty() || next.is_some() {
                return refuse("one with a problem stops", "with a problem nothing fires and nothing comes next");
            }
        }
        Ok(())
    }
}

impl NextFire {
    /// For engines: refuses what no schedule could have next.
    ///
    /// # Errors
    /// `invalid_input`.
    pub fn check(&self) -> Result<()> {
        instant("nominal_at", self.nominal_at)?;
        if self.due_at < self.nominal_at || self.due_at > self.nominal_at + LONGEST_JITTER {
            return Err(Error::invalid(
                format!("cannot be due at `{}` for `{}`", nominal_time(self.due_at), nominal_time(self.nominal_at)),
                "a message is due at its nominal time or within a day after it",
            )
            .with("argument", "due_at"));
        }
        Ok(())
    }
}

/// What became of a tick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TickOutcome {
    /// The schedule went on, and these were sent. Nominal times that are not after the last one that fired are left out: each fires once.
    /// Empty also where a problem was recorded.
    Fired(Vec<Fired>),
    /// Nothing happened: the schedule has another revision, is paused or removed, or somebody is just changing it. Look again.
    Changed,
    /// The queue is not there. That is recorded as the schedule's problem, its nominal times count as missed, and it went on.
    TargetGone,
}

/// Keeping schedules, and firing them as their leader.
#[async_trait]
pub trait Schedules: Send + Sync {
    /// Makes a schedule, or gives it another definition; it then fires `next`, and its intervals count from `anchor_at`, which is now. Where
    /// spec, zone, jitter and bounds stay as they are, it goes on with the next time that it had; otherwise one that was due already counts
    /// as missed. One that is paused stays so, without a next time. Wakes who waits for [`crate::Topic::Schedules`], unless nothing changed.
    ///
    /// # Errors
    /// `invalid_input`, `limit_exceeded` for what [`ScheduleDefinition::check`] and [`NextFire::check`] refuse; `not_found` when the queue
    /// does not exist; `unavailable`.
    async fn put_schedule(
        &self,
        definition: &ScheduleDefinition,
        next: Option<NextFire>,
        anchor_at: Timestamp,
    ) -> Result<Put>;

    /// Removes a schedule with what is remembered of it. Returns whether it was there. What it has sent stays.
    ///
    /// # Errors
    /// `unavailable`.
    async fn remove_schedule(&self, name: &ScheduleName) -> Result<bool>;

    /// Stops a schedule until it is resumed. Returns whether that changed something.
    ///
    /// # Errors
    /// `not_found` when the schedule does not exist; `unavailable`.
    async fn pause_schedule(&self, name: &ScheduleName) -> Result<bool>;

    /// Lets a paused schedule go on with `next`. What it would have fired meanwhile is not made up for. Returns whether that changed
    /// something. Wakes who waits for [`crate::Topic::Schedules`].
    ///
    /// # Errors
    /// `not_found` when the schedule does not exist; `invalid_input` for what [`NextFire::check`] refuses; `unavailable`.
    async fn resume_schedule(&self, name: &ScheduleName, next: Option<NextFire>) -> Result<bool>;

    /// How one schedule stands.
    ///
    /// # Errors
    /// `unavailable`.
    async fn schedule(&self, name: &ScheduleName) -> Result<Option<ScheduleStatus>>;

    /// How every schedule stands, by name.
    ///
    /// # Errors
    /// `unavailable`.
    async fn schedule_status(&self) -> Result<Vec<ScheduleStatus>>;

    /// What a schedule has fired, the last [`FIRES_KEPT`], oldest first. What [`Schedules::run_schedule`] sent is not among it.
    ///
    /// # Errors
    /// `not_found` when the schedule does not exist; `unavailable`.
    async fn schedule_history(&self, name: &ScheduleName) -> Result<Vec<Fired>>;

    /// Sends one message of a schedule now, paused or not, with now as its nominal time. Changes nothing of the schedule.
    ///
    /// # Errors
    /// `not_found` when the schedule or its queue does not exist; `unavailable`; `unknown_outcome`: then the message may or may not be
    /// there.
    async fn run_schedule(&self, name: &ScheduleName) -> Result<Fired>;

    /// Renews the leader's lease as [`crate::Leases::renew_lease`] does and tells in the same call which schedules are due: at most `max`,
    /// which is 1 to [`MAX_TICKS`], and with [`LOOK_BYTES`] of payloads. Nothing when the lease is lost.
    ///
    /// # Errors
    /// `invalid_input` for another `max`; `unavailable`; `unknown_outcome`, which another call resolves.
    async fn due_schedules(&self, leader: &LeaseToken, ttl: Option<Ttl>, max: u32) -> Result<Option<Due>>;

    /// Does what the leader judged that schedules are to do, in one commit: the messages and the schedules' going on. What became of each
    /// stands at its place.
    ///
    /// # Errors
    /// `fenced` when `leader` does not hold its lease: nothing happened; `invalid_input`, `limit_exceeded` for what [`Tick::check`]
    /// refuses; `unavailable`; `unknown_outcome`, which another look resolves: what fired has another revision.
    async fn fire_schedules(&self, leader: &LeaseToken, ticks: &[Tick]) -> Result<Vec<TickOutcome>>;
}

/// For engines: what a look returns of the schedules that wait, which come by when they are due.
///
/// # Errors
/// What a schedule fails with.
pub fn due_of(now: Timestamp, limit: usize, waiting: impl IntoIterator<Item = Result<ScheduleStatus>>) -> Result<Due> {
    let (mut due, mut bytes) = (Due { now, schedules: Vec::new(), next_due_at: None }, 0);
    for status in waiting {
        let status = status?;
        let due_at = status.next.map(|next| next.due_at);
        bytes += status.definition.payload.len();
        let is_full = due.schedules.len() == limit || (bytes > LOOK_BYTES && !due.schedules.is_empty());
        if is_full || due_at.is_some_and(|due_at| due_at > now) {
            due.next_due_at = due_at;
            break;
        }
        due.schedules.push(status);
    }
    Ok(due)
}

/// For engines: how many schedules a look returns at most, checked.
///
/// # Errors
/// `invalid_input` outside 1 ..= [`MAX_TICKS`].
pub fn due_limit(max: u32) -> Result<usize> {
    let limit = max as usize;
    if (1..=MAX_TICKS).contains(&limit) {
        return Ok(limit);
    }
    Err(Error::invalid(format!("cannot look for at most `{max}` schedules"), "allowed are 1 to 10000")
        .with("argument", "max"))
}

/// Text that engines keep without reading it.
fn text(what: &'static str, text: &str, longest: usize) -> Result<()> {
    let why = if text.trim().is_empty() {
        "it is blank".to_owned()
    } else if text.len() > longest {
        format!("it has {} bytes", text.len())
    } else if text.chars().any(char::is_control) {
        "it holds a control character".to_owned()
    } else {
        return Ok(());
    };
    let shown: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    Err(Error::invalid(
        format!("cannot use `{shown}` as a {what}: {why}"),
        format!("allowed are 1 to {longest} bytes of UTF-8, not blank, without control characters"),
    )
    .with("argument", what))
}

/// An instant that storage and headers can tell.
fn instant(argument: &'static str, at: Timestamp) -> Result<()> {
    if (Timestamp::from_micros(0)..=LATEST).contains(&at) {
        return Ok(());
    }
    Err(Error::invalid(
        format!("cannot use the instant `{}µs` of a schedule", at.as_micros()),
        "allowed are the years 1970 to 9999",
    )
    .with("argument", argument))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misfire_policies_are_read_as_they_are_written() {
        for misfire in [Misfire::Skip, Misfire::One, Misfire::All(1), Misfire::All(10_000)] {
            assert_eq!(misfire.to_string().parse::<Misfire>().unwrap(), misfire);
        }
        assert_eq!("all".parse::<Misfire>().unwrap(), Misfire::All(100));
        for bad in ["", "none", "all:", "all:0", "all:10001", "all:-1", "ALL"] {
            let error = bad.parse::<Misfire>().unwrap_err();
            assert_eq!((error.kind(), error.fact("argument")), (Kind::InvalidInput, Some("misfire")));
        }
    }

    #[test]
    fn nominal_times_are_told_and_read_up_to_the_last() {
        for micros in [0, 1, 1_767_225_600_000_000, 1_767_225_600_999_999, LATEST.as_micros()] {
            let at = Timestamp::from_micros(micros);
            assert_eq!(nominal_time(at).parse::<Timestamp>().unwrap(), at);
        }
        assert_eq!(nominal_time(Timestamp::from_micros(i64::MAX)), nominal_time(LATEST));
        assert!(instant("at", LATEST).is_ok());
        assert!(instant("at", Timestamp::from_micros(LATEST.as_micros() + 1)).is_err());
    }

    #[test]
    fn the_longest_definition_is_taken_with_its_headers() {
        let name = ScheduleName::new("é".repeat(127)).unwrap();
        let queue = QueueName::new("q").unwrap();
        let largest = ScheduleDefinition {
            payload: vec![0; MAX_PAYLOAD],
            ..ScheduleDefinition::new(name, "x".repeat(MAX_SPEC), queue)
        };
        assert!(largest.check().is_ok());
        let message = largest.message(LATEST).unwrap();
        assert_eq!(message.headers()[NOMINAL_TIME_HEADER], "9999-12-31T23:59:59.999999Z");
    }
}
