//! A schedule that is known to make sense, between the text that engines keep and the ticks that they take.

use std::fmt;
use std::time::Duration;

use fencepost_core::schedule::{LONGEST_JITTER, Misfire, NextFire, ScheduleDefinition, ScheduleStatus, Tick};
use fencepost_core::{Error, Key, Kind, MAX_FAILURE, MessageKind, QueueName, Result, ScheduleName, Timestamp};

use crate::jitter;
use crate::misfire::{self, Fires};
use crate::spec::Spec;
use crate::timetable::Timetable;
use crate::zone::Zone;

/// What is sent when. What exists fires at some time, and is within the limits.
///
/// ```
/// use fencepost_core::{QueueName, ScheduleName};
/// use fencepost_schedule::{Schedule, Spec, Zone};
///
/// let report = Schedule::new(ScheduleName::new("report")?, Spec::parse("0 8 * * mon-fri")?, QueueName::new("reports")?)
///     .zone(Zone::parse("Europe/Berlin")?)
///     .payload("weekly")?;
/// assert_eq!(report.definition().spec, "0 8 * * 1-5");
/// assert_eq!(Schedule::read(report.definition())?, report);
/// # Ok::<_, fencepost_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    spec: Spec,
    zone: Zone,
    definition: ScheduleDefinition,
}

impl Schedule {
    /// A schedule in UTC whose messages are empty and of the kind `default`, without bounds and without jitter. Of what nobody fired in
    /// time the latest fires.
    pub fn new(name: ScheduleName, spec: Spec, queue: QueueName) -> Self {
        let definition = ScheduleDefinition::new(name, spec.as_str(), queue);
        Self { spec, zone: Zone::utc(), definition }
    }

    /// Reads what an engine has kept.
    ///
    /// # Errors
    /// `unsupported`, with what is wrong as its source, when spec, zone or something else means nothing to this version: a newer one
    /// may have put it, or one whose time zones are newer.
    pub fn read(definition: &ScheduleDefinition) -> Result<Self> {
        let read = || {
            let spec = Spec::parse(&definition.spec)?;
            let zone = Zone::parse(&definition.zone)?;
            definition.check()?;
            check_jitter(&spec, definition.jitter)?;
            Ok(Self { spec, zone, definition: definition.clone() })
        };
        read().map_err(|cause: Error| unreadable(definition, &cause).caused_by(cause))
    }

    /// Reads how an engine shows it.
    ///
    /// # Errors
    /// As [`Schedule::read`].
    pub fn of(status: &ScheduleStatus) -> Result<Self> {
        let definition = &status.definition;
        status.unreadable.as_ref().map_or_else(|| Self::read(definition), |why| Err(unreadable(definition, why)))
    }

    /// Sets the time zone.
    #[must_use]
    pub fn zone(mut self, zone: Zone) -> Self {
        zone.name().clone_into(&mut self.definition.zone);
        self.zone = zone;
        self
    }

    /// Sets what sort of message it sends.
    #[must_use]
    pub fn kind(mut self, kind: MessageKind) -> Self {
        self.definition.kind = kind;
        self
    }

    /// Sets what orders its messages.
    #[must_use]
    pub fn key(mut self, key: impl Into<Option<Key>>) -> Self {
        self.definition.key = key.into();
        self
    }

    /// Sets what it sends.
    ///
    /// # Errors
    /// `limit_exceeded` when the payload is larger than [`fencepost_core::MAX_PAYLOAD`].
    pub fn payload(mut self, payload: impl Into<Vec<u8>>) -> Result<Self> {
        self.definition.payload = payload.into();
        self.checked()
    }

    /// Sets what happens to nominal times that nobody fired in time.
    ///
    /// # Errors
    /// `invalid_input` for a cap outside 1 ..= 10,000.
    pub fn misfire(mut self, misfire: Misfire) -> Result<Self> {
        self.definition.misfire = misfire;
        self.checked()
    }

    /// Sends each message at some time from its nominal time on, up to so long after it and always before the next one. The delay follows
    /// from name and nominal time alone. Parts of a microsecond are dropped.
    ///
    /// # Errors
    /// `invalid_input` when it is longer than a day, or than the interval of an `@every`.
    pub fn jitter(mut self, jitter: Duration) -> Result<Self> {
        check_jitter(&self.spec, jitter)?;
        self.definition.jitter = Duration::from_micros(jitter.as_micros() as u64);
        Ok(self)
    }

    /// Leaves out what is before `from`, or is `until` or later. A `from` is also where an `@every` begins to count, and its first nominal
    /// time.
    ///
    /// # Errors
    /// `invalid_input` when nothing is between them, or for years other than 1970 to 9999.
    pub fn within(mut self, from: Option<Timestamp>, until: Option<Timestamp>) -> Result<Self> {
        (self.definition.from, self.definition.until) = (from, until);
        self.checked()
    }

    fn checked(self) -> Result<Self> {
        self.definition.check().map(|()| self)
    }

    /// What engines keep of it.
    pub fn definition(&self) -> &ScheduleDefinition {
        &self.definition
    }

    /// Its nominal times; those of an `@every` count from the anchor.
    pub fn timetable(&self, anchor_at: Timestamp) -> Timetable {
        let ScheduleDefinition { from, until, .. } = self.definition;
        Timetable::new(self.spec.clone(), self.zone.clone(), anchor_at).within(from, until)
    }

    /// What comes first after an instant, as when it is put or resumed then.
    pub fn next_after(&self, anchor_at: Timestamp, after: Timestamp) -> Option<NextFire> {
        let timetable = self.timetable(anchor_at);
        timetable.following(after).map(|at| self.fire(&timetable, at))
    }

    /// What a schedule that stands so is to do at `now`. Nothing is due: no fires, and the same next one.
    pub fn tick(&self, status: &ScheduleStatus, now: Timestamp) -> Tick {
        let timetable = self.timetable(status.anchor_at);
        let judged = status.next.map(|first| {
            let due_at = |at| self.fire(&timetable, at).due_at;
            (first, misfire::judge(&timetable, self.definition.misfire, first, now, due_at))
        });
        let (fires, missed, next) = match judged {
            None => (Vec::new(), 0, None),
            Some((first, Fires { last: None, .. })) => (Vec::new(), 0, Some(first)),
            Some((_, Fires { fires, missed, last: Some(last) })) => {
                let next = timetable.following(last).map(|at| self.fire(&timetable, at));
                (fires, missed, next)
            }
        };
        Tick { name: status.definition.name.clone(), revision: status.revision, fires, missed, next, problem: None }
    }

    fn fire(&self, timetable: &Timetable, at: Timestamp) -> NextFire {
        let ScheduleDefinition { name, jitter, .. } = &self.definition;
        // Looking for the next nominal time is not for free, and most schedules have no jitter.
        let next = if jitter.is_zero() { None } else { timetable.following(at) };
        NextFire { nominal_at: at, due_at: jitter::due_at(name, at, *jitter, next) }
    }
}

/// What the schedule that stands so is to do at `now`, also when it cannot be read: then it stops, and the tick says why.
pub fn tick(status: &ScheduleStatus, now: Timestamp) -> Tick {
    match Schedule::of(status) {
        Ok(schedule) => schedule.tick(status, now),
        Err(error) => Tick {
            name: status.definition.name.clone(),
            revision: status.revision,
            fires: Vec::new(),
            missed: 0,
            next: None,
            problem: Some(told(&error)),
        },
    }
}

fn unreadable(definition: &ScheduleDefinition, why: impl fmt::Display) -> Error {
    Error::new(Kind::Unsupported, format!("cannot read the schedule `{}`: {why}", definition.name))
        .with("schedule", &definition.name)
        .hinted("a newer version of fencepost may have put it: upgrade this one, or put the schedule again")
}

/// A problem as a tick may tell it, whatever it quotes.
fn told(error: &Error) -> String {
    let mut text = error.to_string().replace('\0', "\u{fffd}");
    let end = (0..=MAX_FAILURE.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or_default());
    text
}

fn check_jitter(spec: &Spec, jitter: Duration) -> Result<()> {
    let refuse = |allowed: String| {
        Err(Error::invalid(format!("cannot use `{jitter:?}` as a jitter"), allowed).with("argument", "jitter"))
    };
    match spec.interval() {
        _ if jitter > LONGEST_JITTER => refuse("allowed are 0 to 1 day".into()),
        Some(interval) if jitter > interval => refuse(format!("allowed are 0 to the interval of `{spec}`")),
        _ => Ok(()),
    }
}
