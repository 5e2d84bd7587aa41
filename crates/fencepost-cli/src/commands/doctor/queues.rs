//! What is wrong with what is kept: messages that wait for somebody.

use std::time::Duration;

use fencepost::slot::Phase;
use fencepost::{ConsumerPath, ConsumerStatus, QueueStatus, Result, SlotStatus, Store, Timestamp};

use super::Finding;
use crate::text::{self, shell_word};

/// How long messages may wait while nobody works on them.
const UNATTENDED: Duration = Duration::from_secs(60);

/// How long messages may wait while somebody does.
const LAGGING: Duration = Duration::from_secs(60 * 60);

/// Everything that is looked at.
struct Sight {
    queues: Vec<QueueStatus>,
    consumers: Vec<ConsumerStatus>,
    slots: Vec<SlotStatus>,
    dead: Vec<(ConsumerPath, u64)>,
    now: Timestamp,
}

/// Examines queues and consumers.
pub async fn examine(store: &Store) -> Result<Vec<Finding>> {
    let sight = Sight {
        queues: store.queue_status().await?,
        consumers: store.consumer_status(None).await?,
        slots: store.slot_status(None).await?,
        dead: store.dead_counts(None).await?,
        // ORDER: read last, so that nothing that is seen happened after it.
        now: store.now().await?,
    };
    let queues = sight.queues.iter().flat_map(|queue| sight.of_queue(queue));
    let consumers = sight.consumers.iter().flat_map(|consumer| sight.of_consumer(consumer));
    Ok(queues.chain(consumers).chain(sight.dead.iter().map(dead)).collect())
}

impl Sight {
    fn of_queue(&self, status: &QueueStatus) -> Vec<Finding> {
        let (queue, word) = (&status.queue, shell_word(status.queue.as_str()));
        let mut findings = Vec::new();
        if status.paused {
            findings.push(Finding::warning(
                "queue_paused",
                format!("the queue `{queue}` is paused: nothing new is handed out"),
                format!("`fencepost queue resume {word}` lets it go on"),
            ));
        }
        if status.consumers == 0 && status.stored > 0 {
            let kept = text::exact(status.retention.unread);
            findings.push(Finding::warning(
                "queue_unread",
                format!("the queue `{queue}` holds {} and has no consumer", text::counted(status.stored, "message")),
                format!("`fencepost consumer create {word} NAME` makes one; they are kept for {kept}"),
            ));
        }
        findings
    }

    fn of_consumer(&self, status: &ConsumerStatus) -> Vec<Finding> {
        let path = &status.path;
        let words = format!("{} {}", shell_word(path.queue.as_str()), shell_word(path.consumer.as_str()));
        let mut findings = Vec::new();
        let waiting = text::counted(status.lag, "message");
        let is_attended = status.workers > 0 || self.slots_of(path).any(|slot| self.is_live(slot));
        let given_up: Vec<_> =
            self.slots_of(path).filter(|slot| self.is_given_up(slot)).map(|slot| slot.slot.to_string()).collect();
        if !is_attended && !given_up.is_empty() {
            findings.push(Finding::warning(
                "nobody_works",
                format!("nobody works for `{path}`, and a batch is open in slot {}", given_up.join(", ")),
                "start its workers again: the batch goes to the first that claims the slot",
            ));
        } else if status.lag > 0
            && let Some((queue, age)) = self.age_of(path)
            && age > if is_attended { LAGGING + queue.retention.consumed } else { UNATTENDED }
        {
            let since = text::duration(age);
            findings.push(match is_attended {
                true => Finding::warning(
                    "consumer_lags",
                    format!("`{path}` has {waiting} to go, and its queue holds messages of {since} ago"),
                    "add workers, up to one a slot, or see what its commands wait for; meanwhile the queue grows",
                ),
                false => Finding::warning(
                    "nobody_works",
                    format!("nobody works for `{path}`: {waiting} wait, and its queue holds messages of {since} ago"),
                    format!(
                        "start its workers, or drop it: `fencepost consumer drop {words}`; meanwhile the queue grows"
                    ),
                ),
            });
        }
        if status.parked > 0 {
            findings.push(Finding::warning(
                "keys_parked",
                format!("{} of `{path}` wait for a failed one of their key", text::counted(status.parked, "message")),
                "they follow when it is acked or dead; see what its handler says, and mend that",
            ));
        }
        findings
    }

    fn slots_of<'a>(&'a self, path: &'a ConsumerPath) -> impl Iterator<Item = &'a SlotStatus> {
        self.slots.iter().filter(move |slot| slot.path == *path)
    }

    fn is_live(&self, slot: &SlotStatus) -> bool {
        matches!(slot.state.phase(self.now), Phase::HeldLive | Phase::OpenLive)
    }

    fn is_given_up(&self, slot: &SlotStatus) -> bool {
        matches!(slot.state.phase(self.now), Phase::OpenExpired | Phase::Orphan)
    }

    /// The queue of a consumer, and how old its oldest stored message is.
    fn age_of(&self, path: &ConsumerPath) -> Option<(&QueueStatus, Duration)> {
        let queue = self.queues.iter().find(|queue| queue.queue == path.queue)?;
        Some((queue, self.now.since(queue.oldest_at?)))
    }
}

fn dead((path, count): &(ConsumerPath, u64)) -> Finding {
    let words = format!("{} {}", shell_word(path.queue.as_str()), shell_word(path.consumer.as_str()));
    Finding::warning(
        "dead_letters",
        format!("`{path}` gave up {}", text::counted(*count, "message")),
        format!("`fencepost dead list {words}` says why; `fencepost dead replay` and `purge` decide about them"),
    )
}
