//! `fencepost status`: the whole store on one screen, and what to do next when there is little to see.

use fencepost::slot::Phase as SlotPhase;
use fencepost::{ConsumerStatus, LeaseStatus, QueueStatus, Result, SlotStatus, Store, StoreInfo, Timestamp};
use serde_json::{Value, json};

use super::{consumer, lease, queue, slot};
use crate::open;
use crate::printer::Printer;
use crate::text;

/// Runs the command.
pub async fn run(url: &str, printer: &Printer) -> Result<()> {
    open::existing(url, async |store| {
        let status = Status::of(store).await?;
        printer.answer(|| status.for_people(), || status.as_json())
    })
    .await
}

/// Everything that is shown.
struct Status {
    info: StoreInfo,
    now: Timestamp,
    queues: Vec<QueueStatus>,
    consumers: Vec<ConsumerStatus>,
    slots: Vec<SlotStatus>,
    leases: Vec<LeaseStatus>,
}

impl Status {
    async fn of(store: &Store) -> Result<Self> {
        Ok(Self {
            info: store.info(),
            queues: store.queue_status().await?,
            consumers: store.consumer_status(None).await?,
            slots: store.slot_status(None).await?,
            leases: store.lease_status().await?,
            // ORDER: read last, so that nothing that is shown happened after it.
            now: store.now().await?,
        })
    }

    fn for_people(&self) -> String {
        let StoreInfo { engine, location, schema_version, engine_version } = &self.info;
        let mut screen = format!("store {location} ({engine} {engine_version}, schema version {schema_version})\n");
        // Slots that somebody holds or left a batch in, leases that somebody holds or held and did not give back: the others
        // have nothing to tell.
        let slots = self.slots.iter().filter(|slot| slot.state.phase(self.now) != SlotPhase::Free);
        let leases = self.leases.iter().filter(|lease| lease.state.holding.is_some());
        let tables = [
            queue::table(&self.queues, self.now),
            consumer::table(&self.consumers),
            slot::table(slots, self.now),
            lease::table(leases, self.now),
        ];
        for table in tables.iter().filter(|table| !table.is_empty()) {
            screen += &format!("\n{}", table.render());
        }
        if let Some(next) = self.next_step() {
            screen += &format!("\n{next}\n");
        }
        screen
    }

    fn next_step(&self) -> Option<String> {
        let [first, ..] = &*self.queues else {
            return Some("Nothing is here yet. Make a queue: fencepost queue create orders".into());
        };
        let idle = self.consumers.is_empty() && self.queues.iter().all(|queue| queue.stored == 0);
        let name = text::shell_word(first.queue.as_str());
        idle.then(|| format!("No messages yet. Send one: fencepost send {name} 'hello' --key customer-7"))
    }

    fn as_json(&self) -> Value {
        json!({
            "engine": self.info.engine,
            "engine_version": self.info.engine_version,
            "location": self.info.location,
            "schema_version": self.info.schema_version,
            "now": text::rfc3339(self.now),
            "queues": self.queues.iter().map(queue::json).collect::<Vec<_>>(),
            "consumers": self.consumers.iter().map(consumer::json).collect::<Vec<_>>(),
            "slots": self.slots.iter().map(|status| slot::json(status, self.now)).collect::<Vec<_>>(),
            "leases": self.leases.iter().map(|status| lease::json(status, self.now)).collect::<Vec<_>>(),
        })
    }
}
