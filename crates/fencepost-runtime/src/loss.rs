//! That a kept lease is kept no more, and why.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// Why a lease is kept no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LossReason {
    /// A renewal was answered: the lease is somebody else's, or was taken by force.
    Taken,
    /// Its deadline passed and no renewal had been answered. Whether it is somebody else's by now is unknown.
    DeadlinePassed,
    /// Its holder gave it back or dropped it.
    Released,
}

/// The end of a kept lease, for whoever works under it. Clones tell the same.
#[derive(Debug, Clone, Default)]
pub struct Loss {
    token: CancellationToken,
    told: Arc<OnceLock<LossReason>>,
}

impl Loss {
    /// Fires at the end.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Why it ended; `None` while it is kept.
    pub fn reason(&self) -> Option<LossReason> {
        // Who watches the deadline fires the token and says nothing.
        self.token.is_cancelled().then(|| *self.told.get_or_init(|| LossReason::DeadlinePassed))
    }

    /// Waits for the end. Cancel-safe.
    pub async fn happened(&self) -> LossReason {
        self.token.cancelled().await;
        self.reason().unwrap_or(LossReason::DeadlinePassed)
    }

    /// Ends it. What ended before keeps its reason.
    pub(crate) fn tell(&self, reason: LossReason) {
        if self.reason().is_none() {
            // ORDER: the reason is there before the token fires.
            let _ = self.told.set(reason);
            self.token.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_reason_stays() {
        let loss = Loss::default();
        assert_eq!(loss.reason(), None);
        loss.tell(LossReason::Taken);
        loss.tell(LossReason::Released);
        assert_eq!((loss.reason(), loss.clone().happened().await), (Some(LossReason::Taken), LossReason::Taken));
    }

    #[tokio::test]
    async fn a_token_that_fires_by_itself_is_a_deadline() {
        let loss = Loss::default();
        loss.token().cancel();
        loss.tell(LossReason::Released);
        assert_eq!(loss.happened().await, LossReason::DeadlinePassed);
    }
}
