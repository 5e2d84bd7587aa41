//! A transaction: every call of the contract as a function on it, so that a plain call and one in a caller's transaction are
//! the same code. It works on a copy of the state, made at the first change.

use std::sync::Arc;

use fencepost_core::{
    BatchId, ChannelName, Epoch, Error, IdempotencyKey, LeaseToken, MessageId, NewMessage, Notice, OnceTtl, QueueName,
    Release, Result, RoundRobin, SentOnce, SlotToken, Timestamp, Topic,
};

use crate::state::State;

/// A transaction of [`MemStore::write`](crate::MemStore::write).
///
/// What it does commits together when the closure returns `Ok`, and is gone when it returns `Err` or when it ignored a call that
/// failed.
#[derive(Debug)]
pub struct MemTransaction<'s> {
    state: Arc<State>,
    changed: bool,
    now: Timestamp,
    round: &'s RoundRobin,
    wakes: Vec<Topic>,
    notices: Vec<(ChannelName, Notice)>,
    /// The first of the caller's calls that failed: whoever ignores it does not commit.
    failed: Option<Error>,
}

/// What to store, whom to wake and what to deliver.
pub(crate) struct Commit {
    pub(crate) state: Arc<State>,
    pub(crate) wakes: Vec<Topic>,
    pub(crate) notices: Vec<(ChannelName, Notice)>,
}

impl<'s> MemTransaction<'s> {
    pub(crate) fn new(state: Arc<State>, now: Timestamp, round: &'s RoundRobin) -> Self {
        Self { state, changed: false, now, round, wakes: Vec::new(), notices: Vec::new(), failed: None }
    }

    /// Appends a message that is there once this commits. The twin of [`Queues::send`](fencepost_core::Queues::send).
    ///
    /// # Errors
    /// `not_found` when the queue does not exist.
    pub fn send_in(&mut self, queue: &QueueName, message: NewMessage) -> Result<MessageId> {
        let sent = self.append(queue, message);
        self.caller_call("send", sent)
    }

    /// Appends messages in order. The twin of [`Queues::send_batch`](fencepost_core::Queues::send_batch).
    ///
    /// # Errors
    /// `not_found` when the queue does not exist.
    pub fn send_batch_in(&mut self, queue: &QueueName, messages: Vec<NewMessage>) -> Result<Vec<MessageId>> {
        let sent = messages.into_iter().map(|message| self.append(queue, message)).collect();
        self.caller_call("send_batch", sent)
    }

    /// Appends a message unless the queue remembers the key. The twin of [`Queues::send_once`](fencepost_core::Queues::send_once).
    ///
    /// # Errors
    /// `not_found` when the queue does not exist; `conflict` when the key stands for another message.
    pub fn send_once_in(
        &mut self,
        queue: &QueueName,
        message: NewMessage,
        key: &IdempotencyKey,
        ttl: OnceTtl,
    ) -> Result<SentOnce> {
        let sent = self.send_once(queue, message, key, ttl);
        self.caller_call("send_once", sent)
    }

    /// Acks a batch in one commit with everything else of this transaction. The twin of
    /// [`Slots::ack`](fencepost_core::Slots::ack).
    ///
    /// # Errors
    /// `fenced`; `conflict` for another batch than the open or the last one; `not_found`.
    pub fn ack_in(&mut self, token: &SlotToken, batch: BatchId) -> Result<u32> {
        let acked = self.ack("ack", token, batch);
        self.caller_call("ack", acked)
    }

    /// Makes this transaction valid only under a lease.
    ///
    /// # Errors
    /// `fenced`.
    pub fn guard_in(&mut self, token: &LeaseToken) -> Result<()> {
        let guarded = self.guard_lease(token);
        self.caller_call("guard_lease", guarded)
    }

    /// Makes this transaction valid only under a slot.
    ///
    /// # Errors
    /// `fenced`; `not_found`.
    pub fn slot_guard_in(&mut self, token: &SlotToken) -> Result<()> {
        let guarded = self.guard_slot(token);
        self.caller_call("guard_slot", guarded)
    }

    /// Gives a slot back in one commit with everything else of this transaction. The twin of
    /// [`Slots::release_slot`](fencepost_core::Slots::release_slot).
    ///
    /// # Errors
    /// `open_batch` when a batch is open; `not_found`.
    pub fn release_in(&mut self, token: &SlotToken) -> Result<Release> {
        let released = self.release_slot(token);
        self.caller_call("release_slot", released)
    }

    fn caller_call<T>(&mut self, operation: &'static str, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            let error = error.during(operation);
            self.failed.get_or_insert_with(|| error.shared());
            error
        })
    }

    /// The first of the caller's calls that failed, if one did.
    pub(crate) fn failure(&mut self) -> Option<Error> {
        self.failed.take()
    }

    /// The state as this transaction sees it.
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// The state to change. Whoever asks for it writes.
    pub(crate) fn change(&mut self) -> &mut State {
        self.changed = true;
        Arc::make_mut(&mut self.state)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    pub(crate) fn round(&self) -> &'s RoundRobin {
        self.round
    }

    /// Wakes `topic` once this commits.
    pub(crate) fn wake(&mut self, topic: Topic) {
        if !self.wakes.contains(&topic) {
            self.wakes.push(topic);
        }
    }

    /// Delivers a notice once this commits.
    pub(crate) fn tell(&mut self, channel: ChannelName, notice: Notice) {
        self.changed = true;
        self.notices.push((channel, notice));
    }

    /// The epoch of the next grant. It is used up only by [`MemTransaction::granted`].
    pub(crate) fn next_epoch(&self, last: Option<Epoch>) -> Result<Epoch> {
        Epoch::next(self.state.epoch, last, self.now)
    }

    /// Records that `epoch` was granted.
    pub(crate) fn granted(&mut self, epoch: Epoch) {
        let state = self.change();
        state.epoch = state.epoch.max(epoch.get());
    }

    /// What a commit does; `None` when nothing changed.
    pub(crate) fn finish(self) -> Option<Commit> {
        let Self { state, wakes, notices, .. } = self;
        self.changed.then_some(Commit { state, wakes, notices })
    }
}
