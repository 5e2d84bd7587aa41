//! Putting schedules that are known to make sense, and letting them go on: what comes next is found by the engine's clock.

use async_trait::async_trait;
use fencepost_core::refusal::no_schedule;
use fencepost_core::schedule::Put;
use fencepost_core::{Error, Result, ScheduleName, Store};
use fencepost_schedule::Schedule;

/// Calls on schedules that need to know what their texts mean, for every store.
#[async_trait]
pub trait Scheduling: Store {
    /// Makes a schedule, or gives it another definition. The same again changes nothing: it fires next when it would have. Whoever leads
    /// hears of it.
    ///
    /// # Errors
    /// `invalid_input` when it would never fire from now on; `not_found` when the queue does not exist; `unavailable`.
    async fn put(&self, schedule: &Schedule) -> Result<Put>;

    /// Lets a schedule go on that was paused, from now. Returns whether that changed something.
    ///
    /// # Errors
    /// `not_found` when it does not exist; `unsupported` when it cannot be read; `unavailable`.
    async fn resume(&self, name: &ScheduleName) -> Result<bool>;
}

#[async_trait]
impl<S: Store + ?Sized> Scheduling for S {
    async fn put(&self, schedule: &Schedule) -> Result<Put> {
        let (definition, now) = (schedule.definition(), self.now().await?);
        let next = schedule.next_after(now, now);
        if next.is_none() {
            // Whoever registers his schedules at each start may do so after the last time of one.
            let is_there = self.schedule(&definition.name).await?.is_some_and(|there| there.definition == *definition);
            if !is_there {
                return Err(Error::invalid(
                    format!("cannot put the schedule `{}`: it never fires from now on", definition.name),
                    "allowed is a spec with a time that is to come, before the end of the schedule",
                )
                .with("argument", "spec"));
            }
        }
        self.put_schedule(definition, next, now).await
    }

    async fn resume(&self, name: &ScheduleName) -> Result<bool> {
        let status = self.schedule(name).await?.ok_or_else(|| no_schedule(name))?;
        let schedule = Schedule::of(&status)?;
        let next = schedule.next_after(status.anchor_at, self.now().await?);
        self.resume_schedule(name, next).await
    }
}
