//! The transition table of a lease, as data. What is not in it does not happen.

/// The states of a lease as far as calls tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Nobody holds it.
    Free,
    /// Held, before its expiry.
    Live,
    /// Held, past its expiry: nobody took over yet.
    Expired,
}

impl Phase {
    /// Every phase, in the order of the table's columns.
    pub const ALL: [Phase; 3] = [Phase::Free, Phase::Live, Phase::Expired];
}

/// A call, with everything about its arguments that the table tells apart. "Own" means that the presented epoch is the current
/// holder's; a free lease makes every call not own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// An acquire with no nonce, or another than the holder's.
    Acquire,
    /// An acquire with the nonce that the current holder was granted to.
    AcquireSameNonce,
    /// A renewal by the holder.
    RenewOwn,
    /// A renewal by anybody else.
    RenewNotOwn,
    /// A release by the holder.
    ReleaseOwn,
    /// A release by anybody else.
    ReleaseNotOwn,
    /// A guard by the holder.
    GuardOwn,
    /// A guard by anybody else.
    GuardNotOwn,
    /// A release by force, by an operator.
    ForceRelease,
}

/// What a call does to a lease, and what it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The situation cannot arise: nobody holds a free lease.
    Impossible,
    /// New holder, new epoch.
    Grant,
    /// The stored grant again: same epoch, remaining TTL, no change.
    StoredGrant,
    /// Somebody else's, nothing changes.
    Held,
    /// Extended.
    Extend,
    /// The renewal answers lost, nothing changes.
    Lost,
    /// The holder goes.
    Free,
    /// Not held by this epoch, nothing changes.
    NotHeld,
    /// Held by this epoch, nothing changes.
    Guarded,
    /// Error `fenced`, nothing changes.
    RefuseFenced,
    /// Whoever holds it does not any more, and the epoch rises.
    ForceOut,
}

/// The table: one row an event, one column a phase, in the order of [`Phase::ALL`].
#[rustfmt::skip]
pub const TABLE: [(Event, [Action; 3]); 9] = {
    use Action::*;
    [
    //                         free          live          expired
    (Event::Acquire,          [Grant,        Held,         Grant]),
    (Event::AcquireSameNonce, [Impossible,   StoredGrant,  Grant]),
    (Event::RenewOwn,         [Impossible,   Extend,       Extend]),
    (Event::RenewNotOwn,      [Lost,         Lost,         Lost]),
    (Event::ReleaseOwn,       [Impossible,   Free,         Free]),
    (Event::ReleaseNotOwn,    [NotHeld,      NotHeld,      NotHeld]),
    (Event::GuardOwn,         [Impossible,   Guarded,      Guarded]),
    (Event::GuardNotOwn,      [RefuseFenced, RefuseFenced, RefuseFenced]),
    (Event::ForceRelease,     [ForceOut,     ForceOut,     ForceOut]),
    ]
};

impl Event {
    /// What this event does to a lease in `phase`.
    pub fn action(self, phase: Phase) -> Action {
        let row = TABLE.iter().find(|(event, _)| *event == self).expect("the table has a row for every event");
        row.1[phase as usize]
    }
}
