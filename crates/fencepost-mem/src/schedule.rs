//! Schedules in the model: load the row, let the contract's functions judge, store what they return.

use async_trait::async_trait;
use fencepost_core::refusal::no_schedule;
use fencepost_core::schedule::{FIRES_KEPT, Judged, due_limit, due_of, judge_put, judge_tick};
use fencepost_core::{
    Due, Fired, LeaseToken, NextFire, Put, Renewal, Result, ScheduleDefinition, ScheduleName, ScheduleStatus,
    Schedules, Tick, TickOutcome, Timestamp, Topic, Ttl,
};

use crate::state::Scheduled;
use crate::{MemStore, MemTransaction};

impl MemTransaction<'_> {
    fn find_schedule(&self, name: &ScheduleName) -> Option<&ScheduleStatus> {
        self.state().schedules.get(name).map(|scheduled| &scheduled.status)
    }

    fn present_schedule(&self, name: &ScheduleName) -> Result<&ScheduleStatus> {
        self.find_schedule(name).ok_or_else(|| no_schedule(name))
    }

    fn store_schedule(&mut self, status: ScheduleStatus, fired: &[Fired]) {
        let name = status.definition.name.clone();
        let history = self.find_history(&name);
        let history: Vec<Fired> = history.iter().chain(fired).copied().collect();
        let history = history[history.len().saturating_sub(FIRES_KEPT)..].to_vec();
        self.change().schedules.insert(name, Scheduled { status, history });
    }

    fn find_history(&self, name: &ScheduleName) -> Vec<Fired> {
        self.state().schedules.get(name).map(|scheduled| scheduled.history.clone()).unwrap_or_default()
    }

    fn put_schedule(
        &mut self,
        definition: &ScheduleDefinition,
        next: Option<NextFire>,
        anchor_at: Timestamp,
    ) -> Result<Put> {
        self.state().queue(&definition.queue)?;
        let (put, stored) = judge_put(self.find_schedule(&definition.name), definition, next, anchor_at);
        if let Some(status) = stored {
            self.store_schedule(status, &[]);
            self.wake(Topic::Schedules);
        }
        Ok(put)
    }

    fn remove_schedule(&mut self, name: &ScheduleName) -> bool {
        let was_there = self.find_schedule(name).is_some();
        if was_there {
            self.change().schedules.remove(name);
            self.wake(Topic::Schedules);
        }
        was_there
    }

    fn pause_schedule(&mut self, name: &ScheduleName) -> Result<bool> {
        let Some(status) = self.present_schedule(name)?.paused() else { return Ok(false) };
        self.store_schedule(status, &[]);
        Ok(true)
    }

    fn resume_schedule(&mut self, name: &ScheduleName, next: Option<NextFire>) -> Result<bool> {
        let Some(status) = self.present_schedule(name)?.resumed(next) else { return Ok(false) };
        self.store_schedule(status, &[]);
        self.wake(Topic::Schedules);
        Ok(true)
    }

    fn send_fired(&mut self, definition: &ScheduleDefinition, nominal_at: Timestamp) -> Result<Fired> {
        let message = self.append(&definition.queue, definition.message(nominal_at)?)?;
        Ok(Fired { nominal_at, fired_at: self.now(), message })
    }

    fn run_schedule(&mut self, name: &ScheduleName) -> Result<Fired> {
        let definition = self.present_schedule(name)?.definition.clone();
        self.send_fired(&definition, self.now())
    }

    fn due_schedules(&self, limit: usize) -> Result<Due> {
        let statuses = self.state().schedules.values().map(|scheduled| &scheduled.status);
        let mut waiting: Vec<(Timestamp, &ScheduleStatus)> =
            statuses.filter_map(|status| Some((status.next?.due_at, status))).collect();
        waiting.sort_by_key(|(due_at, _)| *due_at);
        due_of(self.now(), limit, waiting.into_iter().map(|(_, status)| Ok(status.clone())))
    }

    fn fire_schedules(&mut self, leader: &LeaseToken, ticks: &[Tick]) -> Result<Vec<TickOutcome>> {
        self.guard_lease(leader)?;
        ticks.iter().map(|tick| self.tick(tick)).collect()
    }

    fn tick(&mut self, tick: &Tick) -> Result<TickOutcome> {
        let Some(status) = self.find_schedule(&tick.name).cloned() else { return Ok(TickOutcome::Changed) };
        let Judged::Fire(times) = judge_tick(Some(&status), tick) else { return Ok(TickOutcome::Changed) };
        let queue = &status.definition.queue;
        if !times.is_empty() && !self.state().queues.contains_key(queue) {
            self.store_schedule(status.found_no_queue(tick, times.len()), &[]);
            return Ok(TickOutcome::TargetGone);
        }
        let fired: Vec<Fired> =
            times.into_iter().map(|at| self.send_fired(&status.definition, at)).collect::<Result<_>>()?;
        self.store_schedule(status.went_on(tick, &fired), &fired);
        Ok(TickOutcome::Fired(fired))
    }
}

#[async_trait]
impl Schedules for MemStore {
    async fn put_schedule(
        &self,
        definition: &ScheduleDefinition,
        next: Option<NextFire>,
        anchor_at: Timestamp,
    ) -> Result<Put> {
        let put = || {
            definition.check_put(next, anchor_at)?;
            self.write(|tx| tx.put_schedule(definition, next, anchor_at))
        };
        put().map_err(|error| error.during("put_schedule"))
    }

    async fn remove_schedule(&self, name: &ScheduleName) -> Result<bool> {
        self.write(|tx| Ok(tx.remove_schedule(name))).map_err(|error| error.during("remove_schedule"))
    }

    async fn pause_schedule(&self, name: &ScheduleName) -> Result<bool> {
        self.write(|tx| tx.pause_schedule(name)).map_err(|error| error.during("pause_schedule"))
    }

    async fn resume_schedule(&self, name: &ScheduleName, next: Option<NextFire>) -> Result<bool> {
        let resume = || {
            next.map_or(Ok(()), |next| next.check())?;
            self.write(|tx| tx.resume_schedule(name, next))
        };
        resume().map_err(|error| error.during("resume_schedule"))
    }

    async fn schedule(&self, name: &ScheduleName) -> Result<Option<ScheduleStatus>> {
        let (state, _) = self.read().map_err(|error| error.during("schedule"))?;
        Ok(state.schedules.get(name).map(|scheduled| scheduled.status.clone()))
    }

    async fn schedule_status(&self) -> Result<Vec<ScheduleStatus>> {
        let (state, _) = self.read().map_err(|error| error.during("schedule_status"))?;
        Ok(state.schedules.values().map(|scheduled| scheduled.status.clone()).collect())
    }

    async fn schedule_history(&self, name: &ScheduleName) -> Result<Vec<Fired>> {
        let history = || {
            let (state, _) = self.read()?;
            state.schedules.get(name).map(|scheduled| scheduled.history.clone()).ok_or_else(|| no_schedule(name))
        };
        history().map_err(|error| error.during("schedule_history"))
    }

    async fn run_schedule(&self, name: &ScheduleName) -> Result<Fired> {
        self.write(|tx| tx.run_schedule(name)).map_err(|error| error.during("run_schedule"))
    }

    async fn due_schedules(&self, leader: &LeaseToken, ttl: Option<Ttl>, max: u32) -> Result<Option<Due>> {
        let look = || {
            let limit = due_limit(max)?;
            self.write(|tx| match tx.renew_lease(leader, ttl) {
                Renewal::Held => tx.due_schedules(limit).map(Some),
                Renewal::Lost => Ok(None),
            })
        };
        look().map_err(|error| error.during("due_schedules"))
    }

    async fn fire_schedules(&self, leader: &LeaseToken, ticks: &[Tick]) -> Result<Vec<TickOutcome>> {
        let fire = || {
            Tick::check(ticks)?;
            self.write(|tx| tx.fire_schedules(leader, ticks))
        };
        fire().map_err(|error| error.during("fire_schedules"))
    }
}
