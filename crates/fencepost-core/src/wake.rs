//! Wake-ups: hints, coalesced and without payload, that something may be there. Polling stays the truth.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;

use crate::notice::{Mailbox, Notice, NoticeReceiver};
use crate::{ChannelName, ConsumerPath, LeaseName, QueueName};

/// What a sleeper waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Messages were appended to the queue.
    Messages(QueueName),
    /// A slot of the consumer became claimable other than by expiry, or its membership changed.
    Slots(ConsumerPath),
    /// The lease became free other than by expiry: it was given back or taken by force.
    Lease(LeaseName),
    /// Somebody notified on the channel.
    Channel(ChannelName),
    /// A schedule was put, resumed or removed.
    Schedules,
}

/// The sender of wake-ups is gone: the store was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the store was closed")
    }
}

impl std::error::Error for Closed {}

/// Registering sleepers.
pub trait Wakeups: Send + Sync {
    /// A receiver that is woken by what happens to `topic` from now on. Dropping it leaves nothing behind.
    fn wakes(&self, topic: &Topic) -> WakeReceiver;
}

/// The registry of sleepers that every engine keeps.
#[derive(Debug, Clone, Default)]
pub struct WakeHub(Arc<Mutex<Sleepers>>);

#[derive(Debug, Default)]
struct Sleepers {
    topics: HashMap<Topic, watch::Sender<()>>,
    /// Where notices are delivered to; a channel without receivers has no entry.
    listeners: HashMap<ChannelName, Vec<Arc<Mailbox>>>,
    closed: bool,
}

impl WakeHub {
    fn sleepers(&self) -> MutexGuard<'_, Sleepers> {
        self.0.lock().expect("no panic while sleepers are registered")
    }

    /// Registers a sleeper.
    pub fn receiver(&self, topic: &Topic) -> WakeReceiver {
        let mut sleepers = self.sleepers();
        let receiver = if sleepers.closed {
            watch::channel(()).1
        } else {
            sleepers.topics.entry(topic.clone()).or_insert_with(|| watch::channel(()).0).subscribe()
        };
        WakeReceiver { hub: self.clone(), topic: topic.clone(), receiver: Some(receiver) }
    }

    /// Wakes who sleeps on `topic`.
    pub fn wake(&self, topic: &Topic) {
        if let Some(sender) = self.sleepers().topics.get(topic) {
            sender.send_replace(());
        }
    }

    /// Registers a receiver of what is delivered on a channel from now on.
    pub fn listener(&self, channel: &ChannelName) -> NoticeReceiver {
        let sleeper = self.receiver(&Topic::Channel(channel.clone()));
        let mailbox = Arc::new(Mailbox::default());
        let mut sleepers = self.sleepers();
        if sleepers.closed {
            mailbox.close();
        } else {
            sleepers.listeners.entry(channel.clone()).or_default().push(mailbox.clone());
        }
        drop(sleepers);
        NoticeReceiver::new(self.clone(), channel.clone(), mailbox, sleeper)
    }

    /// Takes a receiver's mailbox out.
    pub(crate) fn forget(&self, channel: &ChannelName, mailbox: &Arc<Mailbox>) {
        let mut sleepers = self.sleepers();
        let Some(mailboxes) = sleepers.listeners.get_mut(channel) else { return };
        mailboxes.retain(|other| !Arc::ptr_eq(other, mailbox));
        if mailboxes.is_empty() {
            sleepers.listeners.remove(channel);
        }
    }

    /// Gives a notice to whoever listens to its channel, and wakes who sleeps on it.
    pub fn deliver(&self, channel: &ChannelName, notice: &Notice) {
        let sleepers = self.sleepers();
        sleepers.listeners.get(channel).into_iter().flatten().for_each(|mailbox| mailbox.put(notice.clone()));
        if let Some(sender) = sleepers.topics.get(&Topic::Channel(channel.clone())) {
            sender.send_replace(());
        }
    }

    /// Tells whoever listens to any channel that notices may have been left out.
    pub fn resync(&self) {
        let sleepers = self.sleepers();
        sleepers.listeners.values().flatten().for_each(|mailbox| mailbox.put(Notice::Resync));
        let channels = sleepers.topics.iter().filter(|(topic, _)| matches!(topic, Topic::Channel(_)));
        channels.for_each(|(_, sender)| {
            sender.send_replace(());
        });
    }

    /// Whether anybody listens to a channel, or sleeps on one.
    pub fn listens(&self) -> bool {
        self.sleepers().topics.keys().any(|topic| matches!(topic, Topic::Channel(_)))
    }

    /// What anybody sleeps on. A sender never pays for a sleeper that is not there.
    pub fn topics(&self) -> Vec<Topic> {
        self.sleepers().topics.keys().cloned().collect()
    }

    /// Whether nobody sleeps.
    pub fn is_empty(&self) -> bool {
        self.sleepers().topics.is_empty()
    }

    /// Tells every sleeper, now and later, that no wake-up will come.
    pub fn close(&self) {
        let mut sleepers = self.sleepers();
        sleepers.closed = true;
        sleepers.topics.clear();
        sleepers.listeners.drain().flat_map(|(_, mailboxes)| mailboxes).for_each(|mailbox| mailbox.close());
    }
}

/// Receives the wake-ups of one topic.
#[derive(Debug)]
pub struct WakeReceiver {
    hub: WakeHub,
    topic: Topic,
    receiver: Option<watch::Receiver<()>>,
}

impl WakeReceiver {
    /// Waits for the next wake-up; several that came meanwhile are one. Cancel-safe: a wake-up is not lost.
    ///
    /// # Errors
    /// [`Closed`] when the store was closed.
    pub async fn woken(&mut self) -> Result<(), Closed> {
        match &mut self.receiver {
            Some(receiver) => receiver.changed().await.map_err(|_| Closed),
            None => Err(Closed),
        }
    }
}

impl Drop for WakeReceiver {
    fn drop(&mut self) {
        let mut sleepers = self.hub.sleepers();
        self.receiver = None;
        if sleepers.topics.get(&self.topic).is_some_and(|sender| sender.receiver_count() == 0) {
            sleepers.topics.remove(&self.topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str) -> Topic {
        Topic::Messages(QueueName::new(name).unwrap())
    }

    #[tokio::test]
    async fn a_wake_before_the_wait_is_kept_and_several_are_one() {
        let hub = WakeHub::default();
        let mut receiver = hub.receiver(&topic("q"));
        hub.wake(&topic("q"));
        hub.wake(&topic("q"));
        assert_eq!(receiver.woken().await, Ok(()));
        let mut second = std::pin::pin!(receiver.woken());
        assert!(futures_poll(second.as_mut()).is_none());
    }

    #[tokio::test]
    async fn other_topics_stay_asleep_and_dropped_receivers_leave_nothing() {
        let hub = WakeHub::default();
        let receivers: Vec<_> = (0..1_000).map(|n| hub.receiver(&topic(&format!("q{n}")))).collect();
        assert_eq!(hub.topics().len(), 1_000);
        drop(receivers);
        assert!(hub.is_empty());
    }

    #[tokio::test]
    async fn closing_wakes_with_closed_for_ever() {
        let hub = WakeHub::default();
        let mut early = hub.receiver(&topic("q"));
        hub.close();
        assert_eq!(early.woken().await, Err(Closed));
        assert_eq!(hub.receiver(&topic("q")).woken().await, Err(Closed));
    }

    fn futures_poll<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match future.poll(&mut context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    }
}
