//! The contract of a slot, written down once more: rows, columns, and what every cell promises. It reads nothing of the code.

/// The columns of the contract's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    Free,
    HeldLive,
    HeldExpired,
    OpenLive,
    OpenExpired,
    Orphan,
}

/// The rows of the contract's table, with what the cells say in words told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    Claim,
    ClaimSameNonce,
    ClaimReachesMaxCrashes,
    ClaimAfterTwoCrashesAlone,
    ReceiveOwnMessages,
    ReceiveOwnNone,
    ReceiveOwnNoneForIt,
    ReceiveOwnNoneLeft,
    AckOwnThis,
    AckOwnLast,
    AckOwnOther,
    AckThroughOwnPart,
    AckThroughOwnAcked,
    AckThroughOwnForeign,
    DisposeOwnThis,
    DisposeOwnForeign,
    DisposeOwnOther,
    RenewOwn,
    ReleaseOwn,
    AbandonOwn,
    GuardOwn,
    FencedNotOwn,
    RenewNotOwn,
    ReleaseOrAbandonNotOwn,
    ForceRelease,
    DropConsumer,
    DropConsumerForce,
}

/// What a cell of the contract's table promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// The contract has a dash here, or the row cannot meet the column.
    Never,
    /// held, new epoch
    HeldNewEpoch,
    /// open, new epoch, deliveries + 1, crashes + 1
    OpenNewEpochCrashed,
    /// open, new epoch, deliveries + 1
    OpenNewEpoch,
    /// open, new epoch, the batch cut to its first undisposed message: same batch, deliveries + 1, crashes 0; the rest follows one
    /// by one until the old end
    OpenNewEpochCut,
    /// held, new epoch; the batch of one is finished, its message dead; the rest flows
    HeldNewEpochDead,
    /// the stored grant
    TheStoredGrant,
    /// none
    NoneGranted,
    /// messages: open, new batch, deliveries 1; a batch of one suspected message while isolated
    OpenNewBatch,
    /// the same batch again
    SameBatchAgain,
    /// none: held, nothing written
    NothingWritten,
    /// none for it: held, the cursor past what is not; an isolation ends where its end is passed
    CursorPastSkipped,
    /// held, cursor past exactly the batch
    HeldCursorPast,
    /// the rest stays open as the same batch
    RestStaysOpen,
    /// 0, no change
    Zero,
    /// disposition recorded, the batch stays open
    DispositionRecorded,
    /// `conflict`, another batch
    ConflictOtherBatch,
    /// `not_found`, the message is not in the batch
    NotFoundInBatch,
    /// true
    True,
    /// false
    False,
    /// free, Released
    FreeReleased,
    /// orphan, old epoch void at once
    OrphanReleased,
    /// error `open_batch`, nothing changes
    ErrorOpenBatch,
    /// `fenced` with presented and current epoch
    ErrorFenced,
    /// NotHeld
    NotHeld,
    /// dropped
    Dropped,
    /// `conflict` without force
    ConflictLive,
    /// ok
    Ok,
    /// free, epoch bumped; with a batch: orphan, epoch bumped
    EpochBumped,
}

#[rustfmt::skip]
const CONTRACT: [(Row, [Then; 6]); 27] = {
    use Then::*;
    [
    //                                   free          held, live           held, expired        open, live           open, expired        orphan
    (Row::Claim,                     [HeldNewEpoch, NoneGranted,         HeldNewEpoch,        NoneGranted,         OpenNewEpochCrashed, OpenNewEpoch]),
    (Row::ClaimSameNonce,            [Never,        TheStoredGrant,      HeldNewEpoch,        TheStoredGrant,      OpenNewEpochCrashed, Never]),
    (Row::ClaimReachesMaxCrashes,    [Never,        Never,               Never,               Never,               OpenNewEpochCut,     Never]),
    (Row::ClaimAfterTwoCrashesAlone, [Never,        Never,               Never,               Never,               HeldNewEpochDead,    Never]),
    (Row::ReceiveOwnMessages,        [Never,        OpenNewBatch,        OpenNewBatch,        SameBatchAgain,      SameBatchAgain,      Never]),
    (Row::ReceiveOwnNone,            [Never,        NothingWritten,      NothingWritten,      SameBatchAgain,      SameBatchAgain,      Never]),
    (Row::ReceiveOwnNoneForIt,       [Never,        CursorPastSkipped,   CursorPastSkipped,   SameBatchAgain,      SameBatchAgain,      Never]),
    (Row::ReceiveOwnNoneLeft,        [Never,        Never,               Never,               HeldCursorPast,      HeldCursorPast,      Never]),
    (Row::AckOwnThis,                [Never,        Never,               Never,               HeldCursorPast,      HeldCursorPast,      Never]),
    (Row::AckOwnLast,                [Never,        Zero,                Zero,                Zero,                Zero,                Never]),
    (Row::AckOwnOther,               [Never,        ConflictOtherBatch,  ConflictOtherBatch,  ConflictOtherBatch,  ConflictOtherBatch,  Never]),
    (Row::AckThroughOwnPart,         [Never,        Never,               Never,               RestStaysOpen,       RestStaysOpen,       Never]),
    (Row::AckThroughOwnAcked,        [Never,        Never,               Never,               Zero,                Zero,                Never]),
    (Row::AckThroughOwnForeign,      [Never,        Never,               Never,               NotFoundInBatch,     NotFoundInBatch,     Never]),
    (Row::DisposeOwnThis,            [Never,        Never,               Never,               DispositionRecorded, DispositionRecorded, Never]),
    (Row::DisposeOwnForeign,         [Never,        Never,               Never,               NotFoundInBatch,     NotFoundInBatch,     Never]),
    (Row::DisposeOwnOther,           [Never,        ConflictOtherBatch,  ConflictOtherBatch,  ConflictOtherBatch,  ConflictOtherBatch,  Never]),
    (Row::RenewOwn,                  [Never,        True,                True,                True,                True,                Never]),
    (Row::ReleaseOwn,                [Never,        FreeReleased,        FreeReleased,        ErrorOpenBatch,      ErrorOpenBatch,      Never]),
    (Row::AbandonOwn,                [Never,        FreeReleased,        FreeReleased,        OrphanReleased,      OrphanReleased,      Never]),
    (Row::GuardOwn,                  [Never,        Ok,                  Ok,                  Ok,                  Ok,                  Never]),
    (Row::FencedNotOwn,              [ErrorFenced,  ErrorFenced,         ErrorFenced,         ErrorFenced,         ErrorFenced,         ErrorFenced]),
    (Row::RenewNotOwn,               [False,        False,               False,               False,               False,               False]),
    (Row::ReleaseOrAbandonNotOwn,    [NotHeld,      NotHeld,             NotHeld,             NotHeld,             NotHeld,             NotHeld]),
    (Row::ForceRelease,              [EpochBumped,  EpochBumped,         EpochBumped,         EpochBumped,         EpochBumped,         EpochBumped]),
    (Row::DropConsumer,              [Dropped,      ConflictLive,        Dropped,             ErrorOpenBatch,      ErrorOpenBatch,      ErrorOpenBatch]),
    (Row::DropConsumerForce,         [Dropped,      Dropped,             Dropped,             Dropped,             Dropped,             Dropped]),
    ]
};

/// What the contract promises of a row in a column.
pub fn contract(row: Row, column: Column) -> Then {
    CONTRACT.iter().find(|(known, _)| *known == row).unwrap().1[column as usize]
}
