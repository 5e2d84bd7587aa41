//! Exit statuses: one table over every kind of error. Scripts depend on it; add to it, never renumber.

use std::process::ExitCode;

use fencepost::Kind;

/// What a program that runs `fencepost` learns from its exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It was done.
    Done = 0,
    /// The store refused: somebody holds it, it is not there, or it is there already.
    Refused = 1,
    /// The command line or the input is wrong.
    Usage = 2,
    /// The caller does not own what it believes to own.
    Lost = 3,
    /// The storage failed; a message says whether something may have happened.
    Unavailable = 4,
    /// What is stored is not what this version can read.
    Schema = 5,
    /// A bug in fencepost.
    Bug = 70,
    /// `lease run`: the lease was not granted, so nothing was run. Apart from what a command exits with, as the next two.
    NotGranted = 120,
    /// `lease run`: the lease was lost before the command had ended.
    LeaseLost = 121,
    /// `lease run`: the store cannot be asked for the lease, so nothing was run.
    LeaseUnavailable = 122,
}

impl Exit {
    /// The exit status of an error of `kind`.
    pub const fn of(kind: Kind) -> Exit {
        match kind {
            Kind::NotFound
            | Kind::AlreadyExists
            | Kind::OpenBatch
            | Kind::Conflict
            | Kind::PositionGone
            | Kind::Busy => Exit::Refused,
            Kind::InvalidInput | Kind::LimitExceeded | Kind::Unsupported => Exit::Usage,
            Kind::Fenced | Kind::LeadershipLost => Exit::Lost,
            Kind::Unavailable | Kind::UnknownOutcome => Exit::Unavailable,
            Kind::Schema | Kind::Corrupt => Exit::Schema,
            Kind::Internal => Exit::Bug,
        }
    }

    /// The same for `lease run`, which otherwise exits with the status of the command that it ran: what a schedule or a
    /// deployment decides by is told apart from that. What is wrong before anything is run, such as an absent store, keeps the
    /// status that it has everywhere.
    pub const fn of_lease_run(kind: Kind) -> Exit {
        match kind {
            Kind::Busy => Exit::NotGranted,
            Kind::Fenced | Kind::LeadershipLost => Exit::LeaseLost,
            Kind::Unavailable | Kind::UnknownOutcome => Exit::LeaseUnavailable,
            other => Exit::of(other),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_the_documented_exit_status() {
        let table = [
            (Kind::InvalidInput, 2),
            (Kind::NotFound, 1),
            (Kind::AlreadyExists, 1),
            (Kind::Fenced, 3),
            (Kind::OpenBatch, 1),
            (Kind::LeadershipLost, 3),
            (Kind::Conflict, 1),
            (Kind::PositionGone, 1),
            (Kind::Busy, 1),
            (Kind::LimitExceeded, 2),
            (Kind::Unsupported, 2),
            (Kind::Schema, 5),
            (Kind::Unavailable, 4),
            (Kind::UnknownOutcome, 4),
            (Kind::Corrupt, 5),
            (Kind::Internal, 70),
        ];
        assert_eq!(table.map(|(kind, _)| kind), Kind::ALL);
        for (kind, status) in table {
            assert_eq!(Exit::of(kind) as u8, status, "{kind:?}");
            let of_lease_run = match kind {
                Kind::Busy => 120,
                Kind::Fenced | Kind::LeadershipLost => 121,
                Kind::Unavailable | Kind::UnknownOutcome => 122,
                _ => status,
            };
            assert_eq!(Exit::of_lease_run(kind) as u8, of_lease_run, "{kind:?}");
        }
    }
}
