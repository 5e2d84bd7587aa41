//! Notices: small payloads on a channel, for whoever listens at that moment. Nobody who listens later gets them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;

use crate::wake::{Closed, WakeHub, WakeReceiver};
use crate::{ChannelName, Error, Kind, Result, Timestamp};

/// The largest payload of a notice in bytes.
pub const MAX_NOTICE: usize = 8_000;

/// So many notices wait for one receiver at most; of more it gets the newest.
pub const NOTICES_WAITING: usize = 256;

/// How long an engine that stores notices keeps them for listeners that are cut off: 10 minutes.
pub const NOTICE_KEPT: Duration = Duration::from_secs(10 * 60);

/// How many of them it keeps at most.
pub const NOTICES_KEPT: u32 = 100_000;

/// What a notice carries: a text of at most [`MAX_NOTICE`] bytes, which may be empty. Clones share it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NoticePayload(Arc<str>);

impl NoticePayload {
    /// Checks and takes the text.
    ///
    /// # Errors
    /// `limit_exceeded` when it is longer than [`MAX_NOTICE`]; `invalid_input` when it holds a NUL.
    pub fn new(text: impl Into<Arc<str>>) -> Result<Self> {
        let text = text.into();
        if text.len() > MAX_NOTICE {
            return Err(Error::new(
                Kind::LimitExceeded,
                format!("cannot notify with a payload of `{}` bytes", text.len()),
            )
            .with("limit", MAX_NOTICE)
            .hinted(format!(
                "the payload of a notice may have {MAX_NOTICE} bytes; send a message, or notify of where the data is"
            )));
        }
        if text.contains('\0') {
            return Err(Error::invalid(
                "cannot notify with a payload that holds a NUL",
                "allowed is any other text; encode data that is none",
            )
            .with("argument", "payload"));
        }
        Ok(Self(text))
    }

    /// The text as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NoticePayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<&str> for NoticePayload {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self> {
        Self::new(text)
    }
}

/// What a listener gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Somebody notified.
    Payload {
        /// With what.
        payload: NoticePayload,
        /// When, by the engine's clock; not when it was committed.
        at: Timestamp,
    },
    /// The receiver was not asked for so long that so many notices were left out; what follows is newer.
    Lagged(u64),
    /// Notices may have been left out: those that were committed meanwhile are gone already, or the store is another one than it was.
    /// Whoever keeps something by notices reads it anew.
    Resync,
}

/// Notifying and listening.
///
/// ```
/// use std::sync::Arc;
/// use fencepost_core::{ChannelName, Notice, NoticePayload, Notices, Result};
///
/// async fn greet(store: &dyn Notices) -> Result<()> {
///     let channel = ChannelName::new("settings")?;
///     let mut changes = store.listen(&channel).await?;
///     store.notify(&channel, &NoticePayload::new("theme")?).await?;
///     if let Ok(Notice::Payload { payload, .. }) = changes.next().await {
///         assert_eq!(payload.as_str(), "theme");
///     }
///     Ok(())
/// }
/// ```
#[async_trait]
pub trait Notices: Send + Sync {
    /// Tells whoever listens to the channel. Nobody is waited for, and nothing is kept for who listens later.
    ///
    /// # Errors
    /// `busy` when the store is locked by somebody for longer than its bound; `unavailable`; `unknown_outcome`.
    async fn notify(&self, channel: &ChannelName, payload: &NoticePayload) -> Result<()>;

    /// A receiver of what is committed from now on, in the order of commits as far as one sender goes, each once. Dropping it leaves
    /// nothing behind.
    ///
    /// # Errors
    /// `unavailable`.
    async fn listen(&self, channel: &ChannelName) -> Result<NoticeReceiver>;
}

/// What waits for one receiver.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    waiting: Mutex<Waiting>,
    came: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    notices: VecDeque<Notice>,
    /// A [`Notice::Resync`] that was left out with what was before it.
    has_left_out_resync: bool,
    left_out: u64,
    is_closed: bool,
}

impl Mailbox {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no panic while notices are held")
    }

    /// Puts a notice in; the oldest one goes where there is no room.
    pub(crate) fn put(&self, notice: Notice) {
        let mut waiting = self.waiting();
        if notice == Notice::Resync && waiting.notices.back() == Some(&Notice::Resync) {
            return;
        }
        if waiting.notices.len() >= NOTICES_WAITING {
            match waiting.notices.pop_front() {
                Some(Notice::Resync) => waiting.has_left_out_resync = true,
                _ => waiting.left_out += 1,
            }
        }
        waiting.notices.push_back(notice);
        drop(waiting);
        self.came.notify_one();
    }

    /// Nothing more comes.
    pub(crate) fn close(&self) {
        self.waiting().is_closed = true;
        self.came.notify_one();
    }

    fn take(&self) -> Option<Result<Notice, Closed>> {
        let mut waiting = self.waiting();
        if std::mem::take(&mut waiting.has_left_out_resync) {
            return Some(Ok(Notice::Resync));
        }
        if waiting.left_out > 0 {
            return Some(Ok(Notice::Lagged(std::mem::take(&mut waiting.left_out))));
        }
        let next = waiting.notices.pop_front().map(Ok);
        next.or_else(|| waiting.is_closed.then_some(Err(Closed)))
    }
}

/// Receives the notices of one channel.
#[derive(Debug)]
pub struct NoticeReceiver {
    hub: WakeHub,
    channel: ChannelName,
    mailbox: Arc<Mailbox>,
    /// Has the engine look for what others commit, as any sleeper does.
    _sleeper: WakeReceiver,
}

impl NoticeReceiver {
    pub(crate) fn new(hub: WakeHub, channel: ChannelName, mailbox: Arc<Mailbox>, sleeper: WakeReceiver) -> Self {
        Self { hub, channel, mailbox, _sleeper: sleeper }
    }

    /// Which channel it listens to.
    pub fn channel(&self) -> &ChannelName {
        &self.channel
    }

    /// Waits for the next notice. Cancel-safe: a notice is not lost.
    ///
    /// # Errors
    /// [`Closed`] when the store was closed and everything that had come before is taken.
    pub async fn next(&mut self) -> Result<Notice, Closed> {
        loop {
            if let Some(taken) = self.mailbox.take() {
                return taken;
            }
            // One that came since is not lost: it is kept for the next who waits, and this receiver is the only one.
            self.mailbox.came.notified().await;
        }
    }
}

impl Drop for NoticeReceiver {
    fn drop(&mut self) {
        self.hub.forget(&self.channel, &self.mailbox);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(name: &str) -> ChannelName {
        ChannelName::new(name).unwrap()
    }

    fn notice(text: &str) -> Notice {
        Notice::Payload { payload: NoticePayload::new(text).unwrap(), at: Timestamp::from_micros(1) }
    }

    #[test]
    fn b30_a_payload_at_the_limit_is_taken_and_one_above_it_is_refused() {
        assert!(NoticePayload::new("").is_ok());
        assert!(NoticePayload::new("ä".repeat(MAX_NOTICE / 2)).is_ok());
        let error = NoticePayload::new("x".repeat(MAX_NOTICE + 1)).unwrap_err();
        assert_eq!((error.kind(), error.fact("limit")), (Kind::LimitExceeded, Some("8000")));
        assert!(error.to_string().contains("8001") && error.hint().is_some(), "{error}");
        assert_eq!(NoticePayload::new("a\0b").unwrap_err().kind(), Kind::InvalidInput);
    }

    #[tokio::test]
    async fn every_receiver_of_the_channel_gets_what_is_delivered_and_no_other() {
        let hub = WakeHub::default();
        let (mut a, mut b) = (hub.listener(&channel("c")), hub.listener(&channel("c")));
        let mut other = hub.listener(&channel("d"));
        hub.deliver(&channel("c"), &notice("1"));
        hub.deliver(&channel("c"), &notice("2"));
        for receiver in [&mut a, &mut b] {
            assert_eq!(receiver.next().await, Ok(notice("1")));
            assert_eq!(receiver.next().await, Ok(notice("2")));
        }
        hub.close();
        assert_eq!(other.next().await, Err(Closed));
    }

    #[tokio::test]
    async fn a_full_receiver_hears_once_how_many_it_missed_and_goes_on_with_the_newest() {
        let hub = WakeHub::default();
        let mut receiver = hub.listener(&channel("c"));
        for n in 0..NOTICES_WAITING + 7 {
            hub.deliver(&channel("c"), &notice(&n.to_string()));
        }
        assert_eq!(receiver.next().await, Ok(Notice::Lagged(7)));
        for n in 7..NOTICES_WAITING + 7 {
            assert_eq!(receiver.next().await, Ok(notice(&n.to_string())));
        }
        hub.deliver(&channel("c"), &notice("last"));
        assert_eq!(receiver.next().await, Ok(notice("last")));
    }

    #[tokio::test]
    async fn a_resync_comes_in_its_place_and_is_never_left_out() {
        let hub = WakeHub::default();
        let mut receiver = hub.listener(&channel("c"));
        hub.deliver(&channel("c"), &notice("before"));
        hub.resync();
        hub.resync();
        hub.deliver(&channel("c"), &notice("after"));
        for expected in [notice("before"), Notice::Resync, notice("after")] {
            assert_eq!(receiver.next().await, Ok(expected));
        }
        hub.resync();
        for n in 0..NOTICES_WAITING {
            hub.deliver(&channel("c"), &notice(&n.to_string()));
        }
        assert_eq!(receiver.next().await, Ok(Notice::Resync));
        assert_eq!(receiver.next().await, Ok(notice("0")));
    }

    #[tokio::test]
    async fn what_had_come_is_delivered_before_closed() {
        let hub = WakeHub::default();
        let mut receiver = hub.listener(&channel("c"));
        hub.deliver(&channel("c"), &notice("last"));
        hub.close();
        assert_eq!(receiver.next().await, Ok(notice("last")));
        assert_eq!(receiver.next().await, Err(Closed));
        assert_eq!(hub.listener(&channel("c")).next().await, Err(Closed));
    }

    #[tokio::test]
    async fn b25_dropped_receivers_leave_nothing() {
        let hub = WakeHub::default();
        let receivers: Vec<_> = (0..1_000).map(|n| hub.listener(&channel(&format!("c{}", n % 100)))).collect();
        assert!(hub.listens() && hub.topics().len() == 100);
        drop(receivers);
        assert!(hub.is_empty() && !hub.listens());
    }
}
