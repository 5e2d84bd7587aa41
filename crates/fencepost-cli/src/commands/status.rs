//! `fencepost status`: the whole store on one screen, and what to do next when there is little to see.

use fencepost::lease::Phase as LeasePhase;
use fencepost::slot::Phase as SlotPhase;
use fencepost::{ConsumerStatus, LeaseStatus, QueueStatus, Result, SlotStatus, Store, StoreInfo, Timestamp};
use serde_json::{Value, json};

use super::queue;
use crate::open;
use crate::printer::Printer;
use crate::table::Table;
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
        let tables = [queue::table(&self.queues, self.now), self.consumers(), self.slots(), self.leases()];
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
        let name = shell_word(first.queue.as_str());
        idle.then(|| format!("No messages yet. Send one: fencepost send {name} 'hello' --key customer-7"))
    }

    fn consumers(&self) -> Table {
        let mut table = Table::new(["consumer", "slots", "lag", "workers"]);
        for status in &self.consumers {
            table.row([
                status.path.to_string().into(),
                status.slots.get().into(),
                status.lag.into(),
                status.workers.into(),
            ]);
        }
        table
    }

    /// Slots that somebody holds or left a batch in; the others have nothing to tell.
    fn slots(&self) -> Table {
        let mut table = Table::new([
            "consumer",
            "slot",
            "state",
            "holder",
            "epoch",
            "expires",
            "batch",
            "messages",
            "deliveries",
            "crashes",
            "lag",
        ]);
        for status in &self.slots {
            let (state, phase) = (&status.state, status.state.phase(self.now));
            if phase == SlotPhase::Free {
                continue;
            }
            let owner = state.owner.as_ref();
            table.row([
                status.path.to_string().into(),
                status.slot.get().into(),
                slot_state(phase).to_owned().into(),
                owner.map(|owner| owner.worker.to_string()).into(),
                owner.and(state.epoch).map(|epoch| epoch.to_string()).into(),
                owner.map(|owner| text::relative(owner.expires_at, self.now)).into(),
                state.batch.map(|batch| batch.id.to_string()).into(),
                state.batch.map(|batch| batch.size).into(),
                state.batch.map(|batch| batch.deliveries).into(),
                state.batch.map(|batch| batch.crashes).into(),
                status.lag.into(),
            ]);
        }
        table
    }

    /// Leases that somebody holds, or held and did not give back.
    fn leases(&self) -> Table {
        let mut table = Table::new(["lease", "state", "holder", "epoch", "expires", "since"]);
        for LeaseStatus { name, state } in &self.leases {
            let Some(holding) = &state.holding else { continue };
            table.row([
                name.to_string().into(),
                lease_state(state.phase(self.now)).to_owned().into(),
                holding.holder.to_string().into(),
                state.epoch.map(|epoch| epoch.to_string()).into(),
                text::relative(holding.expires_at, self.now).into(),
                text::relative(holding.since, self.now).into(),
            ]);
        }
        table
    }

    fn as_json(&self) -> Value {
        json!({
            "engine": self.info.engine,
            "engine_version": self.info.engine_version,
            "location": self.info.location,
            "schema_version": self.info.schema_version,
            "now": text::rfc3339(self.now),
            "queues": self.queues.iter().map(queue::json).collect::<Vec<_>>(),
            "consumers": self.consumers.iter().map(consumer_json).collect::<Vec<_>>(),
            "slots": self.slots.iter().map(|status| self.slot_json(status)).collect::<Vec<_>>(),
            "leases": self.leases.iter().map(|status| self.lease_json(status)).collect::<Vec<_>>(),
        })
    }

    fn slot_json(&self, status: &SlotStatus) -> Value {
        let (state, owner) = (&status.state, status.state.owner.as_ref());
        json!({
            "queue": status.path.queue.as_str(),
            "consumer": status.path.consumer.as_str(),
            "slot": status.slot.get(),
            "state": slot_state(state.phase(self.now)),
            "holder": owner.map(|owner| owner.worker.as_str()),
            "epoch": owner.and(state.epoch).map(|epoch| epoch.get()),
            "expires_at": owner.map(|owner| text::rfc3339(owner.expires_at)),
            "batch_id": state.batch.map(|batch| batch.id.get()),
            "messages": state.batch.map(|batch| batch.size),
            "deliveries": state.batch.map(|batch| batch.deliveries),
            "crashes": state.batch.map(|batch| batch.crashes),
            "lag": status.lag,
        })
    }

    fn lease_json(&self, LeaseStatus { name, state }: &LeaseStatus) -> Value {
        let holding = state.holding.as_ref();
        json!({
            "name": name.as_str(),
            "state": lease_state(state.phase(self.now)),
            "holder": holding.map(|holding| holding.holder.as_str()),
            "epoch": holding.and(state.epoch).map(|epoch| epoch.get()),
            "since": holding.map(|holding| text::rfc3339(holding.since)),
            "expires_at": holding.map(|holding| text::rfc3339(holding.expires_at)),
        })
    }
}

fn consumer_json(status: &ConsumerStatus) -> Value {
    json!({
        "queue": status.path.queue.as_str(),
        "consumer": status.path.consumer.as_str(),
        "slots": status.slots.get(),
        "lag": status.lag,
        "workers": status.workers,
    })
}

/// An expired owner is the owner until somebody takes over, so expiry is told by its time and not by another state.
const fn slot_state(phase: SlotPhase) -> &'static str {
    match phase {
        SlotPhase::Free => "free",
        SlotPhase::HeldLive | SlotPhase::HeldExpired => "held",
        SlotPhase::OpenLive | SlotPhase::OpenExpired => "open",
        SlotPhase::Orphan => "orphan",
    }
}

const fn lease_state(phase: LeasePhase) -> &'static str {
    match phase {
        LeasePhase::Free => "free",
        LeasePhase::Live => "held",
        LeasePhase::Expired => "expired",
    }
}

/// A name as a shell takes it, for commands that people copy.
fn shell_word(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:/".contains(c)) && !name.starts_with('-');
    if plain { name.to_owned() } else { format!("'{}'", name.replace('\'', r"'\''")) }
}
