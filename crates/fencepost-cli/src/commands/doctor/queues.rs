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
    let (consumers, slots) = crate::commands::status::consumers_and_slots(store).await?;
    let sight = Sight {
        queues: store.queue_status().await?,
        consumers,
        slots,
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
        } else if let Some(first_at) = status.first_at
            && let age = self.now.since(first_at)
            && age > if is_attended { LAGGING } else { UNATTENDED }
        {
            let since = text::duration(age);
            let kept = self.kept_for(path).map_or_else(String::new, |stored| format!(", and its queue keeps {stored}"));
            let finding = match is_attended {
                true => Finding::warning(
                    "consumer_lags",
                    format!("`{path}` is {since} behind: {waiting} to go{kept}"),
                    "add workers, up to one a slot, or see what its commands wait for; meanwhile the queue grows",
                ),
                false => Finding::warning(
                    "nobody_works",
                    format!("nobody works for `{path}`, which is {since} behind: {waiting} to go{kept}"),
                    format!(
                        "start its workers, or drop it: `fencepost consumer drop {words}`; meanwhile the queue grows"
                    ),
                ),
            };
            let (queue, consumer) = (path.queue.as_str(), path.consumer.as_str());
            let finding = finding.with("queue", queue).with("consumer", consumer).with("messages", status.lag);
            findings.push(finding.with("since", text::rfc3339(first_at)));
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
        // All are in the order of their names.
        let from = self.slots.partition_point(|slot| slot.path < *path);
        self.slots[from..].iter().take_while(move |slot| slot.path == *path)
    }

    fn is_live(&self, slot: &SlotStatus) -> bool {
        matches!(slot.state.phase(self.now), Phase::HeldLive | Phase::OpenLive)
    }

    fn is_given_up(&self, slot: &SlotStatus) -> bool {
        matches!(slot.state.phase(self.now), Phase::OpenExpired | Phase::Orphan)
    }

    /// What a queue stores because of a consumer: nothing, where another one is further behind.
    fn kept_for(&self, path: &ConsumerPath) -> Option<String> {
        let queue = &self.queues[self.queues.binary_search_by(|queue| queue.queue.cmp(&path.queue)).ok()?];
        let from = self.consumers.partition_point(|consumer| consumer.path.queue < path.queue);
        let own = self.consumers[from..].iter().take_while(|consumer| consumer.path.queue == path.queue);
        let furthest = own.filter(|consumer| consumer.first_at.is_some()).min_by_key(|consumer| consumer.first_at)?;
        (furthest.path == *path).then(|| text::counted(queue.stored, "message"))
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
