//! What is to happen to whom: faults are given to workers with enough to do, and run their course.

use std::collections::BTreeMap;

use fencepost::{Key, Partitions, Result, SlotCount};
use serde_json::json;

use super::Stage;
use crate::commands::demo::PARTITIONS;
use crate::commands::demo::input::Expected;
use crate::commands::demo::plan::Plan;
use crate::commands::demo::story::{FAULT, short};
use crate::commands::demo::words::Order;

/// The batch in which a worker is killed, and the one in which one stops itself, counted from its first.
const FAULT_AT: (u32, u32) = (2, 3);

/// What is to happen to a worker, and how far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing.
    Works,
    /// It will be killed in the middle of a batch.
    Kill,
    /// It was killed while it owned this slot by this epoch.
    Killed { slot: u16, epoch: i64 },
    /// It will stop itself.
    Pause,
    /// It said that it is about to.
    Stopping { slot: u16, epoch: i64 },
    /// The system shows it as stopped.
    Stopped { slot: u16, epoch: i64 },
    /// It was continued after somebody else had been granted its slot.
    Continued,
    /// Its late call was refused.
    Refused,
}

impl Stage<'_> {
    /// Gives faults to the workers whose slots get the most messages: a worker without any would never be in a batch.
    pub(super) async fn cast(&mut self) {
        let mut by_load: Vec<(u64, usize)> = (0..self.fates.len())
            .map(|worker| {
                let owned = self.owners.iter().filter(|(_, (_, owner))| *owner == worker);
                (owned.map(|(slot, _)| self.loads.get(slot).copied().unwrap_or(0)).sum(), worker)
            })
            .collect();
        by_load.sort_by_key(|(load, worker)| (std::cmp::Reverse(*load), *worker));
        let kills = std::iter::repeat_n((Fate::Kill, Order::StandAt(FAULT_AT.0)), self.plan.kill as usize);
        let pauses = std::iter::repeat_n((Fate::Pause, Order::StopAt(FAULT_AT.1)), self.plan.pause as usize);
        for ((_, worker), (fate, order)) in by_load.into_iter().zip(kills.chain(pauses)) {
            self.fates[worker] = fate;
            if let Some(process) = &mut self.processes[worker] {
                process.tell(order).await;
            }
        }
    }

    /// Whether all that is left belongs to workers that were killed or stopped.
    pub(super) fn is_waiting_for_a_ttl(&self, sent: Option<u64>) -> bool {
        let held_up: u64 = self
            .fates
            .iter()
            .filter_map(|fate| match fate {
                Fate::Killed { slot, epoch } | Fate::Stopping { slot, epoch } | Fate::Stopped { slot, epoch } => {
                    // Until somebody else is granted it.
                    let still = self.owners.get(slot).is_some_and(|(owner, _)| owner == epoch);
                    self.loads.get(slot).copied().filter(|_| still)
                }
                _ => None,
            })
            .sum();
        held_up > 0 && sent.is_some_and(|sent| self.committed + held_up >= sent)
    }

    /// Whether no fault is half-way: whoever was to be killed or stopped was, or never got far enough.
    pub(super) fn is_settled(&self) -> bool {
        let half_way = |fate: &Fate| matches!(fate, Fate::Stopping { .. } | Fate::Stopped { .. } | Fate::Continued);
        !self.fates.iter().any(half_way)
    }

    /// Continues a stopped worker once the system shows it as stopped and somebody else was granted its slot.
    pub(super) fn watch_the_stopped(&mut self) -> Result<()> {
        for worker in 0..self.fates.len() {
            let Some(process) = &self.processes[worker] else { continue };
            match self.fates[worker] {
                Fate::Stopping { slot, epoch } if process.is_stopped() => {
                    self.fates[worker] = Fate::Stopped { slot, epoch };
                }
                Fate::Stopped { slot, epoch } => {
                    let Some((granted, heir)) = self.owners.get(&slot).copied().filter(|(granted, _)| *granted > epoch)
                    else {
                        continue;
                    };
                    process.proceed()?;
                    self.fates[worker] = Fate::Continued;
                    let what = format!(
                        "is continued (SIGCONT), now that worker-{} owns slot {slot}, epoch {}",
                        heir + 1,
                        short(granted)
                    );
                    let facts = json!({"event": "continue", "slot": slot, "epoch": epoch, "current": granted});
                    self.story.tell(&process.name, FAULT, &what, facts)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// How many messages each slot will get, but for those without a key.
pub(super) fn loads(expected: &Expected, plan: &Plan) -> Result<BTreeMap<u16, u64>> {
    let (partitions, slots) = (Partitions::new(PARTITIONS)?, SlotCount::new(i64::from(plan.workers))?);
    let mut loads = BTreeMap::new();
    for (key, tally) in &expected.rows {
        let Some(key) = key else { continue };
        let slot = slots.owner(partitions.of_key(&Key::new(key.as_str())?));
        *loads.entry(slot.get()).or_default() += tally.legs;
    }
    Ok(loads)
}
