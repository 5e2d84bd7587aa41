//! `fencepost slot …`

pub mod list;
pub mod release;

use fencepost::slot::Phase;
use fencepost::{ConsumerPath, Result, SlotStatus, Store, Timestamp};
use serde_json::{Value, json};

use crate::table::Table;
use crate::text;

/// Slots as a table for people.
pub fn table<'a>(slots: impl IntoIterator<Item = &'a SlotStatus>, now: Timestamp) -> Table {
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
    for status in slots {
        let (state, owner) = (&status.state, status.state.owner.as_ref());
        table.row([
            status.path.to_string().into(),
            status.slot.get().into(),
            state_in_words(status, now).into(),
            owner.map(|owner| owner.worker.to_string()).into(),
            owner.and(state.epoch).map(|epoch| epoch.to_string()).into(),
            owner.map(|owner| text::relative(owner.expires_at, now)).into(),
            state.batch.map(|batch| batch.id.to_string()).into(),
            state.batch.map(|batch| batch.size).into(),
            state.batch.map(|batch| batch.deliveries).into(),
            state.batch.map(|batch| batch.crashes).into(),
            status.lag.into(),
        ]);
    }
    table
}

/// How a slot stands; one that a transaction has locked is blocked, whoever owns it.
pub fn state_in_words(status: &SlotStatus, now: Timestamp) -> String {
    match status.blocked_by {
        Some(pid) => format!("blocked by {pid}"),
        None => state_name(status.state.phase(now)).to_owned(),
    }
}

/// A slot for programs.
pub fn json(status: &SlotStatus, now: Timestamp) -> Value {
    let (state, owner) = (&status.state, status.state.owner.as_ref());
    json!({
        "queue": status.path.queue.as_str(),
        "consumer": status.path.consumer.as_str(),
        "slot": status.slot.get(),
        "state": if status.blocked_by.is_some() { "blocked" } else { state_name(state.phase(now)) },
        "holder": owner.map(|owner| owner.worker.as_str()),
        "epoch": owner.and(state.epoch).map(|epoch| epoch.get()),
        "expires_at": owner.map(|owner| text::rfc3339(owner.expires_at)),
        "batch_id": state.batch.map(|batch| batch.id.get()),
        "messages": state.batch.map(|batch| batch.size),
        "deliveries": state.batch.map(|batch| batch.deliveries),
        "crashes": state.batch.map(|batch| batch.crashes),
        "lag": status.lag,
        "retrying": status.retrying,
        "parked": status.parked,
        "first_at": status.first_at.map(text::rfc3339),
        "blocked_by": status.blocked_by,
    })
}

/// An expired owner is the owner until somebody takes over, so expiry is told by its time and not by another state.
const fn state_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Free => "free",
        Phase::HeldLive | Phase::HeldExpired => "held",
        Phase::OpenLive | Phase::OpenExpired => "open",
        Phase::Orphan => "orphan",
    }
}

/// The slots of one consumer, in order.
pub async fn of_consumer(store: &Store, path: &ConsumerPath) -> Result<Vec<SlotStatus>> {
    let mut slots = store.slot_status(Some(&path.queue)).await?;
    slots.retain(|status| status.path == *path);
    Ok(slots)
}
