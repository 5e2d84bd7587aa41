//! `fencepost status`: the whole store at once, for people, for programs and for Prometheus.

mod prometheus;
mod screen;

use fencepost::postgres::ServerVitals;
use fencepost::slot::Phase;
use fencepost::sqlite::FileSize;
use fencepost::{
    ConsumerPath, ConsumerStatus, LeaseStatus, QueueStatus, Result, ScheduleStatus, SlotStatus, Store, StoreInfo,
    Timestamp,
};
use serde_json::{Value, json};

use super::{consumer, lease, queue, schedule, slot};
use crate::cli::StatusArgs;
use crate::open;
use crate::printer::Printer;
use crate::text;

/// Runs the command.
pub async fn run(url: &str, args: &StatusArgs, printer: &Printer) -> Result<()> {
    open::existing(url, async |store| {
        let status = Status::of(store).await?;
        if args.prometheus {
            return printer.document(prometheus::exposition(&status).as_bytes());
        }
        printer.answer(|| screen::of(&status), || status.as_json())
    })
    .await
}

/// Everything that is shown.
struct Status {
    info: StoreInfo,
    storage: Storage,
    now: Timestamp,
    queues: Vec<QueueStatus>,
    consumers: Vec<ConsumerStatus>,
    slots: Vec<SlotStatus>,
    dead: Vec<(ConsumerPath, u64)>,
    leases: Vec<LeaseStatus>,
    schedules: Vec<ScheduleStatus>,
}

/// What the store is kept in.
enum Storage {
    Memory,
    File(FileSize),
    Server(ServerVitals),
}

/// How every consumer and every slot stands, counted once where the engine can.
pub async fn consumers_and_slots(store: &Store) -> Result<(Vec<ConsumerStatus>, Vec<SlotStatus>)> {
    match store.as_postgres() {
        Some(postgres) => postgres.overview().await,
        None => Ok((store.consumer_status(None).await?, store.slot_status(None).await?)),
    }
}

/// How the slots of a consumer stand, in numbers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Slots {
    all: u64,
    /// Somebody's grant is live.
    live: u64,
    /// A transaction has them locked.
    blocked: u64,
    /// A batch is open and nobody works on it.
    given_up: u64,
    /// Messages of open batches.
    in_flight: u64,
}

impl Status {
    async fn of(store: &Store) -> Result<Self> {
        let storage = match (store.as_postgres(), store.as_sqlite()) {
            (Some(postgres), _) => Storage::Server(postgres.vitals().await?),
            (_, Some(sqlite)) => Storage::File(sqlite.size()),
            _ => Storage::Memory,
        };
        let (consumers, slots) = consumers_and_slots(store).await?;
        Ok(Self {
            info: store.info(),
            storage,
            queues: store.queue_status().await?,
            consumers,
            slots,
            dead: store.dead_counts(None).await?,
            leases: store.lease_status().await?,
            schedules: store.schedule_status().await?,
            // ORDER: read last, so that nothing that is shown happened after it.
            now: store.now().await?,
        })
    }

    /// Every consumer with its slots, in the order of their names.
    fn consumers(&self) -> impl Iterator<Item = (&ConsumerStatus, Slots)> {
        let mut rest = &*self.slots;
        self.consumers.iter().map(move |consumer| {
            rest = &rest[rest.iter().take_while(|slot| slot.path < consumer.path).count()..];
            let own = rest.iter().take_while(|slot| slot.path == consumer.path);
            (consumer, Slots::of(own, self.now))
        })
    }

    /// The consumer that makes a queue keep what it stores, the one that is furthest behind.
    fn pinned_by(&self, queue: &QueueStatus) -> Option<(&ConsumerStatus, Timestamp)> {
        // Both are in the order of their names.
        let from = self.consumers.partition_point(|consumer| consumer.path.queue < queue.queue);
        let own = self.consumers[from..].iter().take_while(|consumer| consumer.path.queue == queue.queue);
        own.filter_map(|consumer| Some((consumer, consumer.first_at?))).min_by_key(|(_, at)| *at)
    }

    /// The messages of a queue's open batches, each counted for every consumer that works on it.
    fn in_flight(&self, queue: &QueueStatus) -> u64 {
        let from = self.slots.partition_point(|slot| slot.path.queue < queue.queue);
        let own = self.slots[from..].iter().take_while(|slot| slot.path.queue == queue.queue);
        own.filter_map(|slot| slot.state.batch).map(|batch| u64::from(batch.size)).sum()
    }

    fn as_json(&self) -> Value {
        let queue_json = |status: &QueueStatus| {
            let mut value = queue::json(status);
            let pinned = self.pinned_by(status);
            value["in_flight"] = self.in_flight(status).into();
            value["pinned_by"] = pinned.map(|(consumer, _)| consumer.path.consumer.as_str()).into();
            value["pinned_since"] = pinned.map(|(_, at)| text::rfc3339(at)).into();
            value
        };
        let consumer_json = |(status, slots): (&ConsumerStatus, Slots)| {
            let mut value = consumer::json(status);
            value["in_flight"] = slots.in_flight.into();
            value["slots_live"] = slots.live.into();
            value["slots_blocked"] = slots.blocked.into();
            value
        };
        json!({
            "engine": self.info.engine,
            "engine_version": self.info.engine_version,
            "location": self.info.location,
            "schema_version": self.info.schema_version,
            "now": text::rfc3339(self.now),
            "storage": self.storage.as_json(),
            "queues": self.queues.iter().map(queue_json).collect::<Vec<_>>(),
            "consumers": self.consumers().map(consumer_json).collect::<Vec<_>>(),
            "slots": self.slots.iter().map(|status| slot::json(status, self.now)).collect::<Vec<_>>(),
            "dead_letters": self.dead.iter().map(|(path, dead)| json!({
                "queue": path.queue.as_str(), "consumer": path.consumer.as_str(), "dead": dead,
            })).collect::<Vec<_>>(),
            "leases": self.leases.iter().map(|status| lease::json(status, self.now)).collect::<Vec<_>>(),
            "schedules": self.schedules.iter().map(schedule::state::json).collect::<Vec<_>>(),
        })
    }
}

impl Storage {
    fn as_json(&self) -> Value {
        match self {
            Storage::Memory => json!({}),
            Storage::File(size) => {
                json!({"bytes": size.bytes, "log_bytes": size.log_bytes, "free_bytes": size.free_bytes})
            }
            Storage::Server(vitals) => json!({
                "bytes": vitals.bytes,
                "role": role(vitals),
                "connections": vitals.connections,
                "max_connections": vitals.max_connections,
                "notifications": vitals.notifies,
            }),
        }
    }
}

const fn role(vitals: &ServerVitals) -> &'static str {
    if vitals.in_recovery { "standby" } else { "primary" }
}

impl Slots {
    fn of<'a>(slots: impl Iterator<Item = &'a SlotStatus>, now: Timestamp) -> Self {
        slots.fold(Self::default(), |sum, slot| {
            let phase = slot.state.phase(now);
            Self {
                all: sum.all + 1,
                live: sum.live + u64::from(matches!(phase, Phase::HeldLive | Phase::OpenLive)),
                blocked: sum.blocked + u64::from(slot.blocked_by.is_some()),
                given_up: sum.given_up + u64::from(matches!(phase, Phase::OpenExpired | Phase::Orphan)),
                in_flight: sum.in_flight + slot.state.batch.map_or(0, |batch| u64::from(batch.size)),
            }
        })
    }
}
