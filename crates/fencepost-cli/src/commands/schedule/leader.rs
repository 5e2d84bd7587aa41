//! Who leads, as far as the caller may know.

use fencepost::lease::{Holding, Phase};
use fencepost::runtime::LEADER;
use fencepost::{LeaseName, LeaseStatus, Result, Store, Timestamp};

/// What a caller finds where the leader's lease is.
#[derive(Debug)]
pub enum Leader {
    /// He may not see it.
    Unseen,
    /// The lease, if anybody has ever held it.
    Seen(Option<LeaseStatus>),
}

impl Leader {
    /// Looks at the leader's lease.
    ///
    /// # Errors
    /// Whatever the look fails with, unless the server refuses it to this user.
    pub async fn find(store: &Store) -> Result<Self> {
        match store.lease(&LeaseName::new(LEADER)?).await {
            Ok(lease) => Ok(Self::Seen(lease)),
            Err(error) if error.fact("sqlstate") == Some(NOT_GRANTED) => Ok(Self::Unseen),
            Err(error) => Err(error),
        }
    }

    /// The lease, where there is one to see.
    pub const fn lease(&self) -> Option<&LeaseStatus> {
        match self {
            Self::Unseen => None,
            Self::Seen(lease) => lease.as_ref(),
        }
    }

    /// Who leads, where somebody is seen to.
    pub fn holding(&self, now: Timestamp) -> Option<&Holding> {
        self.lease().filter(|lease| lease.state.phase(now) == Phase::Live)?.state.holding.as_ref()
    }

    /// Whether it is known that nobody leads.
    pub fn is_nobody(&self, now: Timestamp) -> bool {
        matches!(self, Self::Seen(_)) && self.holding(now).is_none()
    }
}

/// What PostgreSQL answers where a right is missing; a file that cannot be used has the same code and no such fact.
const NOT_GRANTED: &str = "42501";
