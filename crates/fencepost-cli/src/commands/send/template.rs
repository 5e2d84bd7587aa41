//! What all messages of one send have in common: everything but the payload, and what gives them a key of their own.

use fencepost::{Delay, Error, Headers, Key, MessageKind, NewMessage, Result};

use crate::cli::SendArgs;
use crate::text;

const ALLOWED: &str = "allowed are 0s to 365d, a number and a unit each: `90s`, `12h`, `7d`";

/// Makes messages.
#[derive(Debug)]
pub struct Template {
    key: Option<Key>,
    kind: MessageKind,
    headers: Headers,
    delay: Option<Delay>,
    expires_in: Option<Delay>,
}

impl Template {
    /// # Errors
    /// `invalid_input` for a key, a kind, a header or a duration that is none; `limit_exceeded` for headers that are too large.
    pub fn new(args: &SendArgs) -> Result<Self> {
        let time = |text: &Option<String>, argument, what| {
            let parse = |text: &String| text::parse_within(text, argument, what, ALLOWED, Delay::new);
            text.as_ref().map(parse).transpose()
        };
        let template = Self {
            key: args.key.as_deref().map(Key::new).transpose()?,
            kind: MessageKind::new(&args.kind)?,
            headers: args.headers.iter().map(|header| parse_header(header)).collect::<Result<_>>()?,
            delay: time(&args.delay, "delay", "a delay")?,
            expires_in: time(&args.expires_in, "expires_in", "a time to expire")?,
        };
        // What is wrong with the headers is said before anything is read.
        template.message("", None)?;
        Ok(template)
    }

    /// A message with this payload, and this key unless all have one.
    ///
    /// # Errors
    /// `limit_exceeded` when the payload or the headers are too large.
    pub fn message(&self, payload: impl Into<Vec<u8>>, key: Option<Key>) -> Result<NewMessage> {
        let mut message = NewMessage::new(payload)?.key(key.or_else(|| self.key.clone())).kind(self.kind.clone());
        for (name, value) in &self.headers {
            message = message.header(name, value)?;
        }
        if let Some(delay) = self.delay {
            message = message.delay(delay);
        }
        if let Some(expires_in) = self.expires_in {
            message = message.expires_in(expires_in);
        }
        Ok(message)
    }
}

fn parse_header(text: &str) -> Result<(String, String)> {
    let named = text.split_once('=').filter(|(name, _)| !name.is_empty());
    named.map(|(name, value)| (name.to_owned(), value.to_owned())).ok_or_else(|| {
        Error::invalid(
            format!("cannot use `{text}` as a header: it has no name before a `=`"),
            "allowed is NAME=VALUE, such as `source=shop`",
        )
        .with("argument", "header")
    })
}
