//! The end of a sequence: everything that is left is finished, and then nothing may be left or lost.

use std::time::Duration;

use fencepost_core::{BatchSize, ClaimSlot, Result, SlotStatus, WorkerName};

use super::ledger::Ledger;
use super::operation::{CONSUMERS, Owner};
use super::world::{World, path};

/// How often what is left is drained: every round finishes at least one message of every key.
const ROUNDS: usize = 200;

/// Longer than any delay, retry or grant of a sequence.
const LONGER_THAN_ANY: Duration = Duration::from_secs(60);

impl World {
    /// Lets every consumer finish what there is, and checks that nothing sticks and nothing was lost.
    pub(super) async fn finish(&mut self) {
        let finished = self.drain().await;
        let stuck = finished.unwrap_or_else(|error| Some(format!("cannot finish: {error:?}")));
        let lost = |(consumer, ledger): (&u8, &Ledger)| {
            let sent = (0..self.sent.len()).filter(|label| !self.expiring.contains(label));
            ledger.lost(sent).map(|label| format!("m{label} was never handed out to {}", path(*consumer)))
        };
        let lost = self.ledgers.iter().find_map(lost);
        self.broken = self.broken.take().or(stuck).or(lost);
    }

    /// Returns what is left when nothing more comes.
    async fn drain(&mut self) -> Result<Option<String>> {
        let store = self.side.store.clone();
        store.resume_queue(&path(0).queue).await?;
        let mut left = None;
        for _ in 0..ROUNDS {
            self.side.clock.advance(LONGER_THAN_ANY);
            while store.maintain(None).await? > 0 {}
            let statuses = store.slot_status(None).await?;
            left = statuses.iter().find(|status| status.lag > 0).map(|status| format!("{status:?} sticks"));
            if left.is_none() {
                break;
            }
            for status in statuses.into_iter().filter(|status| status.lag > 0 || status.state.batch.is_some()) {
                self.drain_slot(&status).await?;
            }
        }
        Ok(left)
    }

    async fn drain_slot(&mut self, status: &SlotStatus) -> Result<()> {
        let store = self.side.store.clone();
        let consumer = (0..CONSUMERS).find(|consumer| path(*consumer) == status.path).expect("no other was made");
        let claim = ClaimSlot::new(status.path.clone(), WorkerName::new("drain")?);
        let grant = store.claim_slot(&claim, status.slot).await?.expect("every grant has expired");
        let owner = Owner { consumer, slot: status.slot.get() as u8, grants_ago: 0 };
        while let Some(batch) = store.receive(&grant.token, BatchSize::default()).await? {
            self.received(owner, Some(&batch));
            store.ack(&grant.token, batch.id).await?;
        }
        Ok(())
    }
}
