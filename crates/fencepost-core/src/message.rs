//! Messages as they are sent and as they are received.

use std::collections::BTreeMap;
use std::fmt;

use sha2::{Digest, Sha256};

use crate::{Delay, Error, Key, Kind, MessageKind, Moment, Position, Result, Timestamp};

/// The largest payload in bytes: 1 MiB.
pub const MAX_PAYLOAD: usize = 1 << 20;

/// The largest sum of header names and values of one message in bytes: 16 KiB.
pub const MAX_HEADERS: usize = 16 << 10;

/// Small facts beside the payload, such as W3C `traceparent`.
pub type Headers = BTreeMap<String, String>;

macro_rules! identities {
    ($($(#[$doc:meta])* $name:ident = $what:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(i64);

        impl $name {
            /// The largest one.
            pub const MAX: Self = Self(i64::MAX);

            /// Checks and takes the number.
            ///
            /// # Errors
            /// `invalid_input` when it is not positive.
            pub fn new(number: i64) -> Result<Self> {
                if number >= 1 {
                    return Ok(Self(number));
                }
                Err(Error::invalid(format!("cannot use `{number}` as {}", $what), "allowed are numbers from 1")
                    .with("argument", $what))
            }

            /// The number.
            pub const fn get(self) -> i64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

identities! {
    /// What `send` returns: identifies a message within its queue. Rises per sender; not promised dense.
    MessageId = "a message id";
    /// Identifies one batch of one slot.
    BatchId = "a batch id";
}

/// A message to send. What exists is within the limits.
///
/// ```
/// use fencepost_core::{Key, NewMessage};
///
/// let message = NewMessage::new("paid")?.key(Key::new("customer-7")?).header("traceparent", "00-...-01")?;
/// # Ok::<_, fencepost_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    key: Option<Key>,
    kind: MessageKind,
    payload: Vec<u8>,
    headers: Headers,
    due: Option<Moment>,
    expires: Option<Moment>,
}

/// When a message may be handed out, by the engine's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Not before this, if that is later than the send.
    pub due_at: Option<Timestamp>,
    /// Not from this on.
    pub expires_at: Option<Timestamp>,
}

impl NewMessage {
    /// A message without a key, of kind `default`.
    ///
    /// # Errors
    /// `limit_exceeded` when the payload is larger than [`MAX_PAYLOAD`].
    pub fn new(payload: impl Into<Vec<u8>>) -> Result<Self> {
        let payload = payload.into();
        if payload.len() > MAX_PAYLOAD {
            return Err(Error::new(Kind::LimitExceeded, format!("cannot send a payload of `{}` bytes", payload.len()))
                .with("limit", MAX_PAYLOAD)
                .hinted("a payload may have 1048576 bytes (1 MiB); keep larger data elsewhere and send where it is"));
        }
        Ok(Self { key: None, kind: MessageKind::default(), payload, headers: Headers::new(), due: None, expires: None })
    }

    /// Sets the key: messages of one key are handled in order.
    #[must_use]
    pub fn key(mut self, key: impl Into<Option<Key>>) -> Self {
        self.key = key.into();
        self
    }

    /// Sets the kind.
    #[must_use]
    pub fn kind(mut self, kind: MessageKind) -> Self {
        self.kind = kind;
        self
    }

    /// Adds a header.
    ///
    /// # Errors
    /// `invalid_input` when the name is empty; `limit_exceeded` when all headers together exceed [`MAX_HEADERS`].
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Result<Self> {
        let (name, value) = (name.into(), value.into());
        if name.is_empty() {
            return Err(Error::invalid(
                "cannot use `` as a header name: it is empty",
                "a header name has 1 byte or more",
            ));
        }
        self.headers.insert(name, value);
        let size: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if size > MAX_HEADERS {
            return Err(Error::new(Kind::LimitExceeded, format!("cannot send headers of `{size}` bytes"))
                .with("limit", MAX_HEADERS)
                .hinted("all header names and values of a message may have 16384 bytes together"));
        }
        Ok(self)
    }

    /// Holds the message back: it gets its place in the log when `delay` after the send has passed, and its order within its key
    /// counts from then.
    #[must_use]
    pub fn delay(mut self, delay: Delay) -> Self {
        self.due = Some(Moment::After(delay.get()));
        self
    }

    /// Holds the message back until `at`. An instant that has passed means now.
    #[must_use]
    pub fn deliver_at(mut self, at: Timestamp) -> Self {
        self.due = Some(Moment::At(at));
        self
    }

    /// Lets the message go, undelivered, when `after` the send has passed. One that was handed out before stays with its batch.
    #[must_use]
    pub fn expires_in(mut self, after: Delay) -> Self {
        self.expires = Some(Moment::After(after.get()));
        self
    }

    /// Lets the message go, undelivered, at `at`.
    #[must_use]
    pub fn expires_at(mut self, at: Timestamp) -> Self {
        self.expires = Some(Moment::At(at));
        self
    }

    /// For engines: when the message may be handed out if it is sent at `now`.
    ///
    /// # Errors
    /// `invalid_input` when it would expire before it is due.
    pub fn window(&self, now: Timestamp) -> Result<Window> {
        let due_at = self.due.map(|due| due.seen_from(now)).filter(|due| *due > now);
        let expires_at = self.expires.map(|expires| expires.seen_from(now));
        if let (Some(due), Some(expires)) = (due_at, expires_at)
            && expires <= due
        {
            let early = due.since(expires);
            return Err(Error::invalid(
                format!("cannot send a message that expires `{early:?}` before it is due"),
                "a message expires after it is due, or not at all",
            )
            .with("argument", "expires"));
        }
        Ok(Window { due_at, expires_at })
    }

    /// For engines: when it is due, as it was said; the engine's clock makes an instant of it.
    pub fn get_due(&self) -> Option<Moment> {
        self.due
    }

    /// For engines: when it expires, as it was said.
    pub fn get_expires(&self) -> Option<Moment> {
        self.expires
    }

    /// What tells two messages apart for an idempotent send: a SHA-256 over key, kind, payload and headers.
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            // The length keeps neighbouring parts from running into each other.
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        part(self.key.as_ref().map_or("", Key::as_str).as_bytes());
        part(self.kind.as_str().as_bytes());
        part(&self.payload);
        for (name, value) in &self.headers {
            part(name.as_bytes());
            part(value.as_bytes());
        }
        hash.finalize().into()
    }

    /// The key, if there is one.
    pub fn get_key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    /// The kind.
    pub fn get_kind(&self) -> &MessageKind {
        &self.kind
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The headers.
    pub fn headers(&self) -> &Headers {
        &self.headers
    }
}

/// A message as a consumer receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Identifies the message within its queue.
    pub id: MessageId,
    /// Where it sits in the log.
    pub position: Position,
    /// What orders it, if anything.
    pub key: Option<Key>,
    /// What sort of message it is.
    pub kind: MessageKind,
    /// The content.
    pub payload: Vec<u8>,
    /// Small facts beside the payload.
    pub headers: Headers,
    /// Recorded failures + 1.
    pub attempt: u32,
    /// How often it was handed out, this time included.
    pub deliveries: u32,
    /// When it was sent, by the engine's clock.
    pub created_at: Timestamp,
}

/// How many messages a receive returns at most: 1 to 10,000, 100 unless said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchSize(u32);

impl BatchSize {
    /// One message at a time.
    pub const ONE: BatchSize = BatchSize(1);

    /// Checks and takes a batch size.
    ///
    /// # Errors
    /// `invalid_input` outside 1 ..= 10,000.
    pub fn new(max: i64) -> Result<Self> {
        match u32::try_from(max) {
            Ok(max) if (1..=10_000).contains(&max) => Ok(Self(max)),
            _ => Err(Error::invalid(format!("cannot receive at most `{max}` messages"), "allowed are 1 to 10000")
                .with("argument", "max")),
        }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Default for BatchSize {
    /// 100.
    fn default() -> Self {
        Self(100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_over_the_limit_is_refused_and_at_the_limit_taken() {
        assert!(NewMessage::new(vec![0; MAX_PAYLOAD]).is_ok());
        let error = NewMessage::new(vec![0; MAX_PAYLOAD + 1]).unwrap_err();
        assert_eq!((error.kind(), error.fact("limit")), (Kind::LimitExceeded, Some("1048576")));
    }

    #[test]
    fn headers_over_the_limit_are_refused() {
        let message = NewMessage::new("").unwrap().header("a", "x".repeat(MAX_HEADERS - 1)).unwrap();
        assert_eq!(message.clone().header("b", "").unwrap_err().kind(), Kind::LimitExceeded);
        assert_eq!(message.header("", "x").unwrap_err().kind(), Kind::InvalidInput);
    }

    #[test]
    fn max_zero_negative_and_huge_are_refused() {
        for bad in [0, -1, 10_001, i64::MAX] {
            assert_eq!(BatchSize::new(bad).unwrap_err().kind(), Kind::InvalidInput);
        }
    }
}
