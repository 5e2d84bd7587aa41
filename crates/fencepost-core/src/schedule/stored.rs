//! For engines: a schedule out of what is stored of it. A newer version, or somebody by hand, may have stored what means nothing here: that
//! is told of that schedule, and keeps no other from being told.

use std::time::Duration;

use super::{Fired, NextFire, ScheduleDefinition, ScheduleStatus, instant};
use crate::{Error, Key, MessageId, MessageKind, NewMessage, QueueName, Result, ScheduleName, Timestamp};

/// What an engine keeps of a schedule, as it lies there.
#[derive(Debug, Clone)]
#[expect(
    missing_docs,
    reason = "they are the fields of a schedule's definition and status, in the types that engines store"
)]
pub struct StoredSchedule {
    pub name: String,
    pub spec: String,
    pub zone: String,
    pub queue: String,
    pub kind: String,
    pub key: Option<String>,
    pub payload: Vec<u8>,
    pub misfire: String,
    pub jitter: i64,
    pub from: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub revision: i64,
    pub is_paused: bool,
    pub anchor_at: Timestamp,
    pub next_at: Option<Timestamp>,
    pub due_at: Option<Timestamp>,
    /// The nominal time that fired last, and when it did.
    pub last: Option<(Timestamp, Timestamp)>,
    pub last_message: Option<i64>,
    pub missed: i64,
    pub problem: Option<String>,
}

impl StoredSchedule {
    /// How it stands. What cannot be read has something else in its place, and [`ScheduleStatus::unreadable`] says so.
    ///
    /// # Errors
    /// `invalid_input` for a name that no schedule can have: it could not even be told of.
    pub fn status(self) -> Result<ScheduleStatus> {
        let (mut first, name) = (Unreadable(None), ScheduleName::new(self.name)?);
        let mut definition = ScheduleDefinition::new(name, self.spec, first.or(QueueName::new(self.queue), nowhere));
        definition.zone = self.zone;
        definition.kind = first.or(MessageKind::new(self.kind), MessageKind::default);
        definition.key = first.or(self.key.map(Key::new).transpose(), || None);
        definition.payload = self.payload;
        definition.misfire = first.or(self.misfire.parse(), Default::default);
        definition.jitter = Duration::from_micros(self.jitter.unsigned_abs());
        (definition.from, definition.until) = (self.from, self.until);
        first.or(instant("anchor_at", self.anchor_at), || ());
        let next = match (self.next_at, self.due_at) {
            (Some(nominal_at), Some(due_at)) => Ok(Some(NextFire { nominal_at, due_at })),
            (None, None) => Ok(None),
            _ => {
                Err(Error::invalid("cannot use half of what comes next", "it has a nominal time and when that is due"))
            }
        };
        let next = next.and_then(|next| next.map_or(Ok(()), |next| next.check()).map(|()| next));
        let last = self.last.zip(self.last_message).map(|((nominal_at, fired_at), message)| {
            MessageId::new(message).map(|message| Fired { nominal_at, fired_at, message })
        });
        Ok(ScheduleStatus {
            definition,
            revision: self.revision,
            is_paused: self.is_paused,
            anchor_at: self.anchor_at,
            next: first.or(next, || None),
            last: first.or(last.transpose(), || None),
            missed: self.missed.unsigned_abs(),
            problem: self.problem,
            unreadable: first.0,
        })
    }

    /// Where its messages go, and the one of a nominal time.
    ///
    /// # Errors
    /// `invalid_input`, `limit_exceeded` for what no message can have.
    pub fn message(self, nominal_at: Timestamp) -> Result<(QueueName, NewMessage)> {
        let queue = QueueName::new(self.queue)?;
        let definition = ScheduleDefinition {
            kind: MessageKind::new(self.kind)?,
            key: self.key.map(Key::new).transpose()?,
            payload: self.payload,
            ..ScheduleDefinition::new(ScheduleName::new(self.name)?, self.spec, queue.clone())
        };
        Ok((queue, definition.message(nominal_at)?))
    }
}

/// The first thing that could not be read.
struct Unreadable(Option<String>);

impl Unreadable {
    fn or<T>(&mut self, read: Result<T>, otherwise: impl FnOnce() -> T) -> T {
        read.unwrap_or_else(|error| {
            self.0.get_or_insert_with(|| error.to_string());
            otherwise()
        })
    }
}

/// In the place of a queue that no queue can be named as.
fn nowhere() -> QueueName {
    QueueName::new("?").expect("it is a name")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Misfire;

    fn stored() -> StoredSchedule {
        let at = Timestamp::from_micros;
        StoredSchedule {
            name: "s".into(),
            spec: "@hourly".into(),
            zone: "UTC".into(),
            queue: "q".into(),
            kind: "default".into(),
            key: None,
            payload: Vec::new(),
            misfire: "all:7".into(),
            jitter: 1,
            from: None,
            until: None,
            revision: 3,
            is_paused: false,
            anchor_at: at(1),
            next_at: Some(at(5)),
            due_at: Some(at(6)),
            last: Some((at(2), at(3))),
            last_message: Some(4),
            missed: 8,
            problem: None,
        }
    }

    #[test]
    fn what_is_sound_is_told_as_it_is_stored() {
        let status = stored().status().unwrap();
        assert_eq!((status.unreadable, status.definition.misfire, status.revision), (None, Misfire::All(7), 3));
        assert_eq!((status.next.unwrap().due_at.as_micros(), status.last.unwrap().message.get()), (6, 4));
    }

    #[test]
    fn what_cannot_be_read_is_told_and_all_else_with_it() {
        let far = Some(Timestamp::from_micros(i64::MAX));
        let early = Some(Timestamp::from_micros(-5));
        let bad = [
            StoredSchedule { misfire: "latest".into(), ..stored() },
            StoredSchedule { kind: String::new(), ..stored() },
            StoredSchedule { queue: " ".into(), ..stored() },
            StoredSchedule { key: Some(String::new()), ..stored() },
            StoredSchedule { last_message: Some(-1), ..stored() },
            StoredSchedule { next_at: None, ..stored() },
            StoredSchedule { due_at: None, ..stored() },
            StoredSchedule { next_at: far, due_at: far, ..stored() },
            StoredSchedule { next_at: early, due_at: early, ..stored() },
            StoredSchedule { due_at: far, ..stored() },
            StoredSchedule { anchor_at: Timestamp::from_micros(i64::MIN), ..stored() },
        ];
        for bad in bad {
            let status = bad.clone().status().unwrap();
            assert!(status.unreadable.is_some(), "{bad:?}");
            assert_eq!((status.revision, status.definition.spec.as_str()), (3, "@hourly"), "{bad:?}");
        }
        assert!(StoredSchedule { name: "a\nb".into(), ..stored() }.status().is_err());
    }
}
