//! The ground of the cases of schedules: a queue, a leader, and times in seconds after its start.

use std::sync::Arc;
use std::time::Duration;

use fencepost_core::{
    AcquireLease, Acquired, Due, HolderName, LeaseName, LeaseToken, Message, NextFire, Partitions, Put, QueueName,
    ScheduleDefinition, ScheduleName, ScheduleStatus, Start, Store, Tick, TickOutcome, Timestamp,
};

use crate::Harness;
use crate::stage::{size, ttl};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn name(text: &str) -> ScheduleName {
    ScheduleName::new(text).unwrap()
}

pub(crate) fn queue(text: &str) -> QueueName {
    QueueName::new(text).unwrap()
}

pub(crate) fn definition(text: &str) -> ScheduleDefinition {
    ScheduleDefinition::new(name(text), "@every 1s", queue("jobs"))
}

pub(crate) fn at(nominal_at: Timestamp) -> NextFire {
    NextFire { nominal_at, due_at: nominal_at }
}

/// A queue `jobs`, and a leader.
pub(crate) struct Ground {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) leader: LeaseToken,
    /// When it was laid.
    pub(crate) start: Timestamp,
}

impl Ground {
    pub(crate) async fn new(h: &dyn Harness) -> Self {
        let store = h.store();
        store.create_queue(&queue("jobs"), Partitions::default()).await.unwrap();
        let leader = lead(&store, 30).await;
        let start = store.now().await.unwrap();
        Self { store, leader, start }
    }

    /// So many seconds after the start.
    pub(crate) fn after(&self, seconds: u64) -> Timestamp {
        self.start + Duration::from_secs(seconds)
    }

    /// Makes a schedule whose next nominal time is so many seconds after the start.
    pub(crate) async fn put(&self, text: &str, seconds: u64) -> ScheduleStatus {
        let next = Some(at(self.after(seconds)));
        assert_eq!(self.store.put_schedule(&definition(text), next, self.start).await.unwrap(), Put::Created);
        self.status(text).await
    }

    pub(crate) async fn status(&self, text: &str) -> ScheduleStatus {
        self.store.schedule(&name(text)).await.unwrap().expect("the schedule is there")
    }

    /// A tick of how the schedule stands, with times in seconds after the start.
    pub(crate) async fn tick(&self, text: &str, fires: &[u64], next: Option<u64>) -> Tick {
        Tick {
            name: name(text),
            revision: self.status(text).await.revision,
            fires: fires.iter().map(|seconds| self.after(*seconds)).collect(),
            missed: 0,
            next: next.map(|seconds| at(self.after(seconds))),
            problem: None,
        }
    }

    pub(crate) async fn fire(&self, ticks: &[Tick]) -> Vec<TickOutcome> {
        self.store.fire_schedules(&self.leader, ticks).await.unwrap()
    }

    /// Fires one tick, and returns the nominal times that fired, in seconds after the start.
    pub(crate) async fn fire_one(&self, tick: Tick) -> Vec<u64> {
        match self.fire(&[tick]).await.as_slice() {
            [TickOutcome::Fired(fired)] => {
                fired.iter().map(|fired| fired.nominal_at.since(self.start).as_secs()).collect()
            }
            other => panic!("not fired: {other:?}"),
        }
    }

    pub(crate) async fn due(&self) -> Due {
        self.due_of(100).await
    }

    pub(crate) async fn due_of(&self, max: u32) -> Due {
        self.store.due_schedules(&self.leader, None, max).await.unwrap().expect("it leads")
    }

    pub(crate) async fn sent(&self) -> Vec<Message> {
        sent(&self.store, "jobs").await
    }
}

pub(crate) async fn lead(store: &Arc<dyn Store>, seconds: u64) -> LeaseToken {
    let request = AcquireLease::new(LeaseName::new("leader").unwrap(), HolderName::new("h").unwrap());
    match store.acquire_lease(&request.ttl(ttl(seconds))).await.unwrap() {
        Acquired::Granted { token, .. } => token,
        refused => panic!("it was free: {refused:?}"),
    }
}

pub(crate) async fn sent(store: &Arc<dyn Store>, text: &str) -> Vec<Message> {
    store.read(&queue(text), Start::Earliest, size(1_000)).await.unwrap().messages
}

pub(crate) fn names(due: &Due) -> Vec<&str> {
    due.schedules.iter().map(|status| status.definition.name.as_str()).collect()
}
