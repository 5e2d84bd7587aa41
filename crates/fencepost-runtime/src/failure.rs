//! What a handler's failure means: by default the message comes again; a handler can say otherwise.

use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use fencepost_core::{Delay, Error, FailureText, Kind, MAX_FAILURE};

use crate::HandlerError;

/// What a handler returns as its error to say what becomes of the message, when that is not the consumer's policy.
///
/// ```
/// use std::time::Duration;
/// use fencepost_core::*;
/// use fencepost_runtime::*;
///
/// struct Charge;
///
/// #[async_trait]
/// impl MessageHandler for Charge {
///     async fn handle(&self, message: &Message, _slot: &SlotContext) -> Result<(), HandlerError> {
///         if message.payload.is_empty() {
///             return Err(Instead::Dead("the payload is empty".into()).into());
///         }
///         if message.attempt > 3 {
///             let reason = "the bank is closed".into();
///             return Err(Instead::RetryAfter { delay: Delay::new(Duration::from_secs(3_600))?, reason }.into());
///         }
///         Ok(())
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instead {
    /// It failed, and comes again after this time.
    RetryAfter {
        /// After which time.
        delay: Delay,
        /// What went wrong.
        reason: String,
    },
    /// It did not fail: it comes again after this time, and no attempt is spent.
    Snooze(Delay),
    /// It can never succeed: it becomes a dead letter, for this reason.
    Dead(String),
}

impl fmt::Display for Instead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Instead::RetryAfter { reason, .. } | Instead::Dead(reason) => f.write_str(reason),
            Instead::Snooze(delay) => write!(f, "put off for {:?}", delay.get()),
        }
    }
}

impl std::error::Error for Instead {}

/// An error with everything beneath it, as it is kept with the message. Of a longer one the beginning is left out, and said so.
pub(crate) fn text_of(error: &HandlerError) -> Option<FailureText> {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    kept(&text)
}

/// As much of a text as is kept: its end, where the cause stands; nothing of a blank one.
pub fn kept(text: &str) -> Option<FailureText> {
    const LEFT_OUT: &str = "… ";
    let text = text.replace('\0', "\u{fffd}");
    if text.len() <= MAX_FAILURE {
        return FailureText::new(text).ok();
    }
    let from = text.len() - (MAX_FAILURE - LEFT_OUT.len());
    let from = (from..text.len()).find(|at| text.is_char_boundary(*at))?;
    FailureText::new(format!("{LEFT_OUT}{}", &text[from..])).ok()
}

/// A batch was not handled to its end, and no message of it is to blame.
#[derive(Debug)]
pub(crate) struct Unfinished {
    why: &'static str,
    source: Option<Error>,
}

impl Unfinished {
    pub(crate) const fn lost() -> Self {
        Self { why: "the slot was lost before the message was begun", source: None }
    }

    pub(crate) fn unrecorded(source: Error) -> Self {
        Self { why: "the failure of a message could not be recorded", source: Some(source) }
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why)
    }
}

impl std::error::Error for Unfinished {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

/// Whether a batch's handler failed because a store could not take a call: then no message of the batch is to blame.
pub(crate) fn is_store_trouble(error: &HandlerError) -> bool {
    let error: Option<&Error> = error.downcast_ref();
    error.is_some_and(|error| matches!(error.kind(), Kind::Busy | Kind::Unavailable | Kind::UnknownOutcome))
}

/// A handler panicked.
#[derive(Debug)]
pub(crate) struct Panicked(String);

impl Panicked {
    pub(crate) fn new(panic: &(dyn Any + Send)) -> Self {
        let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
        let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
        Self(said.unwrap_or_else(|| "it did not say why".into()))
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the handler panicked: {}", self.0)
    }
}

impl std::error::Error for Panicked {}

/// Runs a handler's future; a panic of its becomes its error.
pub(crate) async fn catching<T>(running: impl Future<Output = Result<T, HandlerError>>) -> Result<T, HandlerError> {
    let mut running = pin!(running);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(context))) {
        Ok(polled) => polled,
        Err(panic) => Poll::Ready(Err(Panicked::new(&*panic).into())),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_text_is_kept_and_the_cut_is_shown() {
        let text = kept(&format!("{}end", "é".repeat(MAX_FAILURE))).unwrap();
        assert!(
            text.as_str().len() <= MAX_FAILURE && text.as_str().starts_with("… é") && text.as_str().ends_with("end")
        );
        assert_eq!(kept(" \n"), None);
        assert_eq!(kept("a\0b").unwrap().as_str(), "a\u{fffd}b");
    }

    #[tokio::test]
    async fn a_panic_is_an_error_that_says_so() {
        let error = catching::<()>(async { panic!("no {}", "way") }).await.unwrap_err();
        assert_eq!(error.to_string(), "the handler panicked: no way");
    }
}
