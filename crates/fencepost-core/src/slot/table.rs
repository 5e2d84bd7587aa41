//! The transition table of a slot, as data. What is not in it does not happen.

/// The states of a slot as far as calls tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// No owner, no batch.
    Free,
    /// Owned, no batch, before its expiry.
    HeldLive,
    /// Owned, no batch, past its expiry.
    HeldExpired,
    /// Owned with an open batch, before its expiry.
    OpenLive,
    /// Owned with an open batch, past its expiry.
    OpenExpired,
    /// An open batch without an owner.
    Orphan,
}

impl Phase {
    /// Every phase, in the order of the table's columns.
    pub const ALL: [Phase; 6] =
        [Phase::Free, Phase::HeldLive, Phase::HeldExpired, Phase::OpenLive, Phase::OpenExpired, Phase::Orphan];
}

/// A call, with everything about its arguments that the table tells apart. "Own" means that the presented epoch is the current
/// owner's; a slot without an owner makes every call not own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A claim with no nonce, or another than the owner's.
    Claim,
    /// A claim with the nonce that the current owner was granted to.
    ClaimSameNonce,
    /// A claim after so many owners lost the open batch that one of its messages is suspected.
    ClaimSuspect,
    /// A claim after a second owner lost a batch of one suspected message.
    ClaimConvicted,
    /// A receive by the owner while messages wait.
    ReceiveOwn,
    /// A receive by the owner while none waits.
    ReceiveOwnEmpty,
    /// A receive by the owner while what waits next is not for it: set aside, or over.
    ReceiveOwnSkipped,
    /// A receive by the owner whose open batch has no message left without a disposition.
    ReceiveOwnSettled,
    /// An ack by the owner of the open batch.
    AckOwnOpen,
    /// An ack by the owner of the batch that was acked last.
    AckOwnLast,
    /// An ack by the owner of any other batch.
    AckOwnOther,
    /// An ack of the open batch by the owner, through a message before its last.
    AckThroughOwnPart,
    /// An ack of the open batch by the owner, through a message that was acked before.
    AckThroughOwnAcked,
    /// An ack of the open batch by the owner, through a message that is not of the batch.
    AckThroughOwnForeign,
    /// A disposition by the owner on a message of the open batch.
    DisposeOwnOpen,
    /// A disposition by the owner on a message that is not of the open batch.
    DisposeOwnForeign,
    /// A disposition by the owner in any other batch.
    DisposeOwnOther,
    /// A renewal by the owner.
    RenewOwn,
    /// A release by the owner.
    ReleaseOwn,
    /// An abandon by the owner.
    AbandonOwn,
    /// A guard by the owner.
    GuardOwn,
    /// A receive by anybody else.
    ReceiveNotOwn,
    /// An ack by anybody else.
    AckNotOwn,
    /// A disposition by anybody else.
    DisposeNotOwn,
    /// A renewal by anybody else.
    RenewNotOwn,
    /// A release by anybody else.
    ReleaseNotOwn,
    /// An abandon by anybody else.
    AbandonNotOwn,
    /// A guard by anybody else.
    GuardNotOwn,
    /// A release by force, by an operator.
    ForceRelease,
    /// A drop of the consumer.
    Drop,
    /// A drop of the consumer by force.
    DropForce,
}

/// What a call does to a slot, and what it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The situation cannot arise: nobody owns a slot without an owner, no batch is open in a slot without one.
    Impossible,
    /// New owner, new epoch, no batch.
    Grant,
    /// New owner, new epoch; the open batch of an expired owner comes along: deliveries + 1, crashes + 1.
    TakeOver,
    /// New owner, new epoch; the open batch is cut to its first message without a disposition: deliveries + 1, crashes 0. What
    /// followed in it comes one by one.
    Isolate,
    /// New owner, new epoch; the batch of one suspected message closes, and the message is a dead letter.
    Convict,
    /// New owner, new epoch; the batch that was given up comes along: deliveries + 1.
    Inherit,
    /// The stored grant again: same epoch, no change.
    StoredGrant,
    /// Nothing is granted, nothing changes.
    NotGranted,
    /// A new batch opens with deliveries 1; renewed when past half the TTL.
    OpenBatch,
    /// The open batch again; renewed when past half the TTL.
    Reissue,
    /// Nothing is there, nothing changes.
    Nothing,
    /// No batch opens; the cursor moves over what is not to be handed out.
    Skip,
    /// The batch closes, the cursor moves past exactly it; renewed when past half the TTL.
    CloseBatch,
    /// The first messages of the batch are acked, the rest stays open; renewed when past half the TTL.
    Shrink,
    /// Acked before: 0 messages, nothing changes.
    AlreadyAcked,
    /// A disposition is recorded, the batch stays open; renewed when past half the TTL.
    Dispose,
    /// The grant is extended by its TTL.
    Extend,
    /// The renewal answers lost, nothing changes.
    Lost,
    /// The owner goes, no batch is left.
    Free,
    /// The owner goes, the open batch stays for the next claimant.
    Orphan,
    /// Owned by this epoch, nothing changes.
    Guarded,
    /// Whoever owns it does not any more, and the epoch rises; the open batch stays for the next claimant.
    ForceOut,
    /// Not held by this epoch, nothing changes.
    NotHeld,
    /// The slot goes with its consumer.
    Drop,
    /// Error `fenced`, nothing changes.
    RefuseFenced,
    /// Error `open_batch`, nothing changes.
    RefuseOpenBatch,
    /// Error `conflict`: another batch than the open or the last one; nothing changes.
    RefuseOtherBatch,
    /// Error `not_found`: the message is not of the batch; nothing changes.
    RefuseForeign,
    /// Error `conflict`: a live owner is in the way; nothing changes.
    RefuseLive,
}

/// The table: one row an event, one column a phase, in the order of [`Phase::ALL`].
#[rustfmt::skip]
pub const TABLE: [(Event, [Action; 6]); 31] = {
    use Action::*;
    [
    //                             free          held, live        held, expired     open, live        open, expired     orphan
    (Event::Claim,                [Grant,        NotGranted,       Grant,            NotGranted,       TakeOver,         Inherit]),
    (Event::ClaimSameNonce,       [Impossible,   StoredGrant,      Grant,            StoredGrant,      TakeOver,         Impossible]),
    (Event::ClaimSuspect,         [Impossible,   Impossible,       Impossible,       Impossible,       Isolate,          Impossible]),
    (Event::ClaimConvicted,       [Impossible,   Impossible,       Impossible,       Impossible,       Convict,          Impossible]),
    (Event::ReceiveOwn,           [Impossible,   OpenBatch,        OpenBatch,        Reissue,          Reissue,          Impossible]),
    (Event::ReceiveOwnEmpty,      [Impossible,   Nothing,          Nothing,          Reissue,          Reissue,          Impossible]),
    (Event::ReceiveOwnSkipped,    [Impossible,   Skip,             Skip,             Reissue,          Reissue,          Impossible]),
    (Event::ReceiveOwnSettled,    [Impossible,   Impossible,       Impossible,       CloseBatch,       CloseBatch,       Impossible]),
    (Event::AckOwnOpen,           [Impossible,   Impossible,       Impossible,       CloseBatch,       CloseBatch,       Impossible]),
    (Event::AckOwnLast,           [Impossible,   AlreadyAcked,     AlreadyAcked,     AlreadyAcked,     AlreadyAcked,     Impossible]),
    (Event::AckOwnOther,          [Impossible,   RefuseOtherBatch, RefuseOtherBatch, RefuseOtherBatch, RefuseOtherBatch, Impossible]),
    (Event::AckThroughOwnPart,    [Impossible,   Impossible,       Impossible,       Shrink,           Shrink,           Impossible]),
    (Event::AckThroughOwnAcked,   [Impossible,   Impossible,       Impossible,       AlreadyAcked,     AlreadyAcked,     Impossible]),
    (Event::AckThroughOwnForeign, [Impossible,   Impossible,       Impossible,       RefuseForeign,    RefuseForeign,    Impossible]),
    (Event::DisposeOwnOpen,       [Impossible,   Impossible,       Impossible,       Dispose,          Dispose,          Impossible]),
    (Event::DisposeOwnForeign,    [Impossible,   Impossible,       Impossible,       RefuseForeign,    RefuseForeign,    Impossible]),
    (Event::DisposeOwnOther,      [Impossible,   RefuseOtherBatch, RefuseOtherBatch, RefuseOtherBatch, RefuseOtherBatch, Impossible]),
    (Event::RenewOwn,             [Impossible,   Extend,           Extend,           Extend,           Extend,           Impossible]),
    (Event::ReleaseOwn,           [Impossible,   Free,             Free,             RefuseOpenBatch,  RefuseOpenBatch,  Impossible]),
    (Event::AbandonOwn,           [Impossible,   Free,             Free,             Orphan,           Orphan,           Impossible]),
    (Event::GuardOwn,             [Impossible,   Guarded,          Guarded,          Guarded,          Guarded,          Impossible]),
    (Event::ReceiveNotOwn,        [RefuseFenced, RefuseFenced,     RefuseFenced,     RefuseFenced,     RefuseFenced,     RefuseFenced]),
    (Event::AckNotOwn,            [RefuseFenced, RefuseFenced,     RefuseFenced,     RefuseFenced,     RefuseFenced,     RefuseFenced]),
    (Event::DisposeNotOwn,        [RefuseFenced, RefuseFenced,     RefuseFenced,     RefuseFenced,     RefuseFenced,     RefuseFenced]),
    (Event::RenewNotOwn,          [Lost,         Lost,             Lost,             Lost,             Lost,             Lost]),
    (Event::ReleaseNotOwn,        [NotHeld,      NotHeld,          NotHeld,          NotHeld,          NotHeld,          NotHeld]),
    (Event::AbandonNotOwn,        [NotHeld,      NotHeld,          NotHeld,          NotHeld,          NotHeld,          NotHeld]),
    (Event::GuardNotOwn,          [RefuseFenced, RefuseFenced,     RefuseFenced,     RefuseFenced,     RefuseFenced,     RefuseFenced]),
    (Event::ForceRelease,         [ForceOut,     ForceOut,         ForceOut,         ForceOut,         ForceOut,         ForceOut]),
    (Event::Drop,                 [Drop,         RefuseLive,       Drop,             RefuseOpenBatch,  RefuseOpenBatch,  RefuseOpenBatch]),
    (Event::DropForce,            [Drop,         Drop,             Drop,             Drop,             Drop,             Drop]),
    ]
};

impl Event {
    /// What this event does to a slot in `phase`.
    pub fn action(self, phase: Phase) -> Action {
        let row = TABLE.iter().find(|(event, _)| *event == self).expect("the table has a row for every event");
        row.1[phase as usize]
    }
}
