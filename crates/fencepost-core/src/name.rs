//! Names that people choose. One rule for all of them, checked once, at construction: what exists is valid.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// The longest name in bytes of UTF-8.
const MAX_BYTES: usize = 255;

fn check(what: &'static str, text: &str) -> Result<()> {
    const ALLOWED: &str = "allowed are 1 to 255 bytes of UTF-8, not blank, without control characters";
    let refuse = |why: String| {
        Err(Error::invalid(format!("cannot use `{}` as {what}: {why}", shorten(text)), ALLOWED).with("argument", what))
    };
    if text.is_empty() {
        return refuse("it is empty".into());
    }
    if text.len() > MAX_BYTES {
        return refuse(format!("it has {} bytes", text.len()));
    }
    if let Some(control) = text.chars().find(|c| c.is_control()) {
        return refuse(format!("it holds the control character U+{:04X}", u32::from(control)));
    }
    if text.trim().is_empty() {
        return refuse("it is blank".into());
    }
    Ok(())
}

/// A refused name as it may appear in a message: at most 40 characters, control characters escaped.
fn shorten(text: &str) -> String {
    let mut shown: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    if text.chars().nth(40).is_some() {
        shown.push('…');
    }
    shown
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $what:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// 1 to 255 bytes of UTF-8, not blank, without control characters.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Checks and takes the name.
            ///
            /// # Errors
            /// `invalid_input` when it is empty, blank, longer than 255 bytes or holds a control character.
            pub fn new(text: impl Into<String>) -> Result<Self> {
                let text = text.into();
                check($what, &text)?;
                Ok(Self(text))
            }

            /// The name as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                Self::new(text)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = Error;

            fn try_from(text: &str) -> Result<Self> {
                Self::new(text)
            }
        }
    )*};
}

names! {
    /// The name of a queue.
    QueueName = "a queue name";
    /// The name of a consumer, unique within its queue.
    ConsumerName = "a consumer name";
    /// The name of a lease.
    LeaseName = "a lease name";
    /// The name of a channel of notices.
    ChannelName = "a channel name";
    /// The name of a schedule.
    ScheduleName = "a schedule name";
    /// The name of a migration lock, which is that of the ledger it protects.
    LockName = "a lock name";
    /// A label for people that says which worker holds a slot. It identifies nothing: identity is the epoch.
    WorkerName = "a worker name";
    /// A label for people that says who holds a lease. It identifies nothing: identity is the epoch.
    HolderName = "a holder name";
    /// What orders messages: messages of one key are handled one after the other.
    Key = "a key";
    /// What sort of message it is; `default` unless said.
    MessageKind = "a message kind";
    /// Why an operator took something by force; kept for the record.
    Reason = "a reason";
    /// Identifies what a message is about, so that it is sent once however often it is tried; unique within its queue.
    IdempotencyKey = "an idempotency key";
    /// Identifies one attempt to acquire or claim, so that a lost reply can be asked for again.
    Nonce = "a nonce";
}

impl Default for MessageKind {
    fn default() -> Self {
        Self("default".into())
    }
}

impl Nonce {
    /// A fresh nonce of 128 random bits.
    ///
    /// # Errors
    /// `unavailable` when the operating system gives no randomness.
    pub fn random() -> Result<Self> {
        Ok(Self(random::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect()))
    }
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0_u8; N];
    getrandom::fill(&mut bytes).map_err(|cause| {
        Error::new(crate::Kind::Unavailable, "cannot go on: the system gave no randomness").caused_by(cause)
    })?;
    Ok(bytes)
}

/// For engines: 64 random bits, for jitter.
///
/// # Errors
/// `unavailable` when the operating system gives no randomness.
pub fn random_u64() -> Result<u64> {
    random().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn bad_names_are_refused_with_what_is_allowed() {
        let long = "x".repeat(256);
        for bad in ["", " ", "\t", "\u{a0}\u{2003}", "a\nb", "a\0b", "a\u{85}b", long.as_str()] {
            let error = QueueName::new(bad).unwrap_err();
            assert_eq!(error.kind(), Kind::InvalidInput, "{bad:?}");
            assert!(error.hint().unwrap().contains("255 bytes"));
            assert!(!error.to_string().chars().any(char::is_control), "{error}");
            assert!(error.to_string().len() < 200, "{error}");
        }
    }

    #[test]
    fn names_of_255_bytes_and_of_any_script_are_taken() {
        assert!(QueueName::new("x".repeat(255)).is_ok());
        assert!(QueueName::new("注文 · nº 7").is_ok());
        assert!(QueueName::new(" padded ").is_ok());
    }

    #[test]
    fn nonces_differ() {
        assert_ne!(Nonce::random().unwrap(), Nonce::random().unwrap());
    }
}
