//! Random calls on schedules, judged beside the engine by the contract's own functions.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost_core::refusal::no_queue;
use fencepost_core::schedule::{FIRES_KEPT, Judged, judge_put, judge_tick};
use fencepost_core::{
    Due, Fired, Misfire, NextFire, Partitions, QueueName, ScheduleDefinition, ScheduleName, ScheduleStatus, Tick,
    TickOutcome, Timestamp,
};

use crate::Harness;
use crate::ground::{Ground, at, definition, name, queue};

/// How many calls are made.
const CALLS: usize = 400;

/// What the schedules have to be.
struct Model {
    ground: Ground,
    schedules: BTreeMap<ScheduleName, (ScheduleStatus, Vec<Fired>)>,
    dice: u64,
}

impl Model {
    fn roll(&mut self, sides: u64) -> u64 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % sides
    }

    fn once_in(&mut self, times: u64) -> bool {
        self.roll(times) == 0
    }

    fn some_name(&mut self) -> ScheduleName {
        name(["a", "b", "c", "d"][self.roll(4) as usize])
    }

    fn next(&mut self, now: Timestamp) -> Option<NextFire> {
        let nominal_at = now + Duration::from_secs(self.roll(6));
        let next = NextFire { nominal_at, due_at: nominal_at + Duration::from_millis(self.roll(3) * 500) };
        (!self.once_in(6)).then_some(next)
    }

    fn definition(&mut self) -> ScheduleDefinition {
        let text = self.some_name();
        let to: QueueName = queue(if self.once_in(2) { "other" } else { "jobs" });
        let misfire = if self.once_in(3) { Misfire::All(3) } else { Misfire::One };
        ScheduleDefinition { queue: to, misfire, ..definition(text.as_str()) }
    }

    /// Ticks of some schedules, most of them by how these stand.
    fn ticks(&mut self, now: Timestamp) -> Vec<Tick> {
        let mut ticks = Vec::new();
        for text in ["a", "b", "c", "d"] {
            if self.once_in(3) {
                continue;
            }
            let current = self.schedules.get(&name(text)).map_or(1, |(status, _)| status.revision);
            let revision = if self.once_in(8) { current - 1 } else { current };
            let first = self.roll(6);
            let many = if self.once_in(20) { 120 } else { self.roll(4) };
            let fires: Vec<Timestamp> = (0..many).map(|n| now + Duration::from_millis(first * 100 + n * 10)).collect();
            let last = fires.last().copied().unwrap_or(now);
            let next = (!self.once_in(6)).then(|| at(last + Duration::from_secs(1 + first)));
            let tick = Tick { name: name(text), revision, fires, missed: self.roll(3), next, problem: None };
            ticks.push(match self.once_in(10) {
                true => Tick { fires: vec![], next: None, problem: Some("unreadable".into()), ..tick },
                false => tick,
            });
        }
        ticks
    }

    async fn has(&self, wanted: &QueueName) -> bool {
        let statuses = self.ground.store.queue_status().await.unwrap();
        statuses.iter().any(|status| status.queue == *wanted)
    }

    async fn put(&mut self, now: Timestamp) {
        let (definition, next) = (self.definition(), self.next(now));
        let answer = self.ground.store.put_schedule(&definition, next, now).await;
        if !self.has(&definition.queue).await {
            assert_eq!(answer.unwrap_err().to_string(), no_queue(&definition.queue).to_string());
            return;
        }
        let present = self.schedules.get(&definition.name);
        let (put, stored) = judge_put(present.map(|(status, _)| status), &definition, next, now);
        assert_eq!(answer.unwrap(), put, "{definition:?}");
        if let Some(status) = stored {
            let history = present.map(|(_, history)| history.clone()).unwrap_or_default();
            self.schedules.insert(definition.name, (status, history));
        }
    }

    async fn fire(&mut self, now: Timestamp) {
        let ticks = self.ticks(now);
        let outcomes = self.ground.fire(&ticks).await;
        assert_eq!(outcomes.len(), ticks.len());
        for (tick, outcome) in ticks.iter().zip(outcomes) {
            let present = self.schedules.get(&tick.name).map(|(status, _)| status);
            let Judged::Fire(times) = judge_tick(present, tick) else {
                assert_eq!(outcome, TickOutcome::Changed, "{tick:?}");
                continue;
            };
            let target = present.expect("it fires").definition.queue.clone();
            let has_queue = self.has(&target).await;
            let (status, history) = self.schedules.get_mut(&tick.name).expect("it fires");
            if !times.is_empty() && !has_queue {
                assert_eq!(outcome, TickOutcome::TargetGone, "{tick:?}");
                *status = status.found_no_queue(tick, times.len());
                continue;
            }
            let TickOutcome::Fired(fired) = outcome else { panic!("{outcome:?} of {tick:?}") };
            assert_eq!(fired.iter().map(|fired| fired.nominal_at).collect::<Vec<_>>(), times);
            *status = status.went_on(tick, &fired);
            history.extend(fired);
            history.drain(..history.len().saturating_sub(FIRES_KEPT));
        }
    }

    /// Everything is as it has to be.
    async fn compare(&self, now: Timestamp) {
        let store = &self.ground.store;
        let wanted: Vec<ScheduleStatus> = self.schedules.values().map(|(status, _)| status.clone()).collect();
        assert_eq!(store.schedule_status().await.unwrap(), wanted);
        for (text, (_, history)) in &self.schedules {
            assert_eq!(store.schedule_history(text).await.unwrap(), *history);
        }
        let due_at = |status: &ScheduleStatus| status.next.map(|next| next.due_at);
        let mut waiting: Vec<ScheduleStatus> = wanted.into_iter().filter(|status| status.next.is_some()).collect();
        waiting.sort_by_key(due_at);
        let is_due = |status: &&ScheduleStatus| due_at(status).is_some_and(|due_at| due_at <= now);
        let schedules: Vec<ScheduleStatus> = waiting.iter().take_while(is_due).take(2).cloned().collect();
        let next_due_at = waiting.get(schedules.len()).and_then(due_at);
        assert_eq!(self.ground.due_of(2).await, Due { now, schedules, next_due_at });
    }
}

/// B32: whatever calls come in whatever order, every engine makes of schedules what the contract's functions make of them.
pub async fn b32_random_calls_make_of_schedules_what_the_contract_says(h: &dyn Harness) {
    let ground = Ground::new(h).await;
    let mut model = Model { ground, schedules: BTreeMap::new(), dice: 7 };
    for _ in 0..CALLS {
        let now = model.ground.store.now().await.unwrap();
        let text = model.some_name();
        let present = model.schedules.get(&text).map(|(status, _)| status.clone());
        match model.roll(16) {
            0..=3 => model.put(now).await,
            4..=9 => model.fire(now).await,
            10 => {
                let answer = model.ground.store.pause_schedule(&text).await;
                assert_eq!(answer.ok(), present.as_ref().map(|present| present.paused().is_some()));
                if let Some(paused) = present.and_then(|present| present.paused()) {
                    model.schedules.get_mut(&text).expect("it is there").0 = paused;
                }
            }
            11 | 12 => {
                let next = model.next(now);
                let answer = model.ground.store.resume_schedule(&text, next).await;
                assert_eq!(answer.ok(), present.as_ref().map(|present| present.resumed(next).is_some()));
                if let Some(resumed) = present.and_then(|present| present.resumed(next)) {
                    model.schedules.get_mut(&text).expect("it is there").0 = resumed;
                }
            }
            13 if model.once_in(2) => {
                let was_there = model.schedules.remove(&text).is_some();
                assert_eq!(model.ground.store.remove_schedule(&text).await.unwrap(), was_there);
            }
            14 if model.has(&queue("other")).await => {
                model.ground.store.drop_queue(&queue("other"), true).await.unwrap();
            }
            14 => drop(model.ground.store.create_queue(&queue("other"), Partitions::default()).await.unwrap()),
            _ => h.clock().advance(Duration::from_millis(model.roll(5) * 500)),
        }
        let now = model.ground.store.now().await.unwrap();
        model.compare(now).await;
    }
    let fired: usize = model.schedules.values().map(|(_, history)| history.len()).sum();
    assert!(fired > 50, "only {fired} times fired");
}
