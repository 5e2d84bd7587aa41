//! The status for people: what needs somebody comes first, names are cut, and it fits on a screen whatever there is.

use std::time::Duration;

use fencepost::lease::Phase as LeasePhase;
use fencepost::slot::Phase;
use fencepost::{QueueStatus, ScheduleStatus, SlotStatus, StoreInfo, Timestamp};

use super::{Slots, Status, Storage, role};
use crate::commands::schedule::state::{State, Trouble};
use crate::commands::{lease, slot};
use crate::table::Table;
use crate::text::{self, count, counted};

/// As much of a name as leaves room for the rest of its row.
const NAME: usize = 24;

/// The whole screen.
pub fn of(status: &Status) -> String {
    let StoreInfo { engine, location, schema_version, engine_version } = &status.info;
    let mut screen = format!("store {location} ({engine} {engine_version}, schema version {schema_version})\n");
    screen += &storage(&status.storage);
    screen += &in_all(status);
    for table in [queues(status), consumers(status), slots(status), leases(status), schedules(status)] {
        if !table.is_empty() {
            screen += &format!("\n{}", table.render());
        }
    }
    for line in [next_step(status), trouble(status)].into_iter().flatten() {
        screen += &format!("\n{line}\n");
    }
    screen
}

fn storage(storage: &Storage) -> String {
    match storage {
        Storage::Memory => String::new(),
        Storage::File(size) => {
            let free = size.free_bytes.map_or_else(String::new, |free| format!(", {} free", text::bytes(free)));
            format!("storage {}, write-ahead log {}{free}\n", text::bytes(size.bytes), text::bytes(size.log_bytes))
        }
        Storage::Server(vitals) => format!(
            "storage {}, {}, {} of {} connections, wakes by {}\n",
            text::bytes(vitals.bytes),
            role(vitals),
            count(vitals.connections),
            count(vitals.max_connections),
            if vitals.notifies { "notifications" } else { "polling" },
        ),
    }
}

fn in_all(status: &Status) -> String {
    if status.queues.is_empty() && status.leases.is_empty() && status.schedules.is_empty() {
        return String::new();
    }
    let lag = status.consumers.iter().map(|consumer| consumer.lag).sum();
    let dead = status.dead.iter().map(|(_, dead)| dead).sum();
    let schedules = match status.schedules.len() as u64 {
        0 => String::new(),
        many => format!(", {}", counted(many, "schedule")),
    };
    format!(
        "in all {}, {} {} behind, {}, {}{schedules}\n",
        counted(status.queues.len() as u64, "queue"),
        counted(status.consumers.len() as u64, "consumer"),
        counted(lag, "message"),
        counted(dead, "dead letter"),
        counted(status.leases.len() as u64, "lease"),
    )
}

fn queues(status: &Status) -> Table {
    let mut table = Table::new(["queue", "stored", "oldest", "in flight", "delayed", "since", "kept for"]);
    let mut queues: Vec<_> = status.queues.iter().map(|queue| (queue, status.pinned_by(queue))).collect();
    queues.sort_by_key(|(queue, pinned)| oldest_first(pinned.map(|(_, at)| at).or(queue.oldest_at)));
    for (queue, pinned) in queues {
        let QueueStatus { queue: name, paused, .. } = queue;
        let name = text::excerpt(name.as_str(), NAME);
        table.row([
            if *paused { format!("{name} (paused)") } else { name }.into(),
            queue.stored.into(),
            queue.oldest_at.map(|at| ago(at, status.now)).into(),
            status.in_flight(queue).into(),
            queue.delayed.into(),
            pinned.map(|(_, at)| ago(at, status.now)).into(),
            pinned.map(|(consumer, _)| text::excerpt(consumer.path.consumer.as_str(), NAME)).into(),
        ]);
    }
    table
}

fn consumers(status: &Status) -> Table {
    let headings = ["consumer", "lag", "since", "open", "retrying", "parked", "dead", "slots", "workers"];
    let mut table = Table::new(headings);
    let mut consumers: Vec<_> = status.consumers().collect();
    consumers.sort_by_key(|(consumer, _)| oldest_first(consumer.first_at));
    for (consumer, Slots { all, live, in_flight, .. }) in consumers {
        table.row([
            text::excerpt(&consumer.path.to_string(), NAME).into(),
            consumer.lag.into(),
            consumer.first_at.map(|at| ago(at, status.now)).into(),
            in_flight.into(),
            consumer.retrying.into(),
            consumer.parked.into(),
            consumer.dead.into(),
            format!("{live} of {all}").into(),
            consumer.workers.into(),
        ]);
    }
    table
}

/// Slots that somebody holds or left a batch in; the others have nothing to tell.
fn slots(status: &Status) -> Table {
    let headings = ["consumer", "slot", "state", "holder", "expires", "open", "crashes", "lag"];
    let mut table = Table::new(headings);
    let told = |slot: &&SlotStatus| slot.blocked_by.is_some() || slot.state.phase(status.now) != Phase::Free;
    let mut slots: Vec<_> = status.slots.iter().filter(told).collect();
    slots.sort_by_key(|slot| match slot.state.phase(status.now) {
        _ if slot.blocked_by.is_some() => 0,
        Phase::OpenExpired | Phase::Orphan => 1,
        _ => 2,
    });
    for status_of in slots {
        let (state, owner) = (&status_of.state, status_of.state.owner.as_ref());
        table.row([
            text::excerpt(&status_of.path.to_string(), NAME).into(),
            status_of.slot.get().into(),
            slot::state_in_words(status_of, status.now).into(),
            owner.map(|owner| text::excerpt(owner.worker.as_str(), NAME)).into(),
            owner.map(|owner| text::relative(owner.expires_at, status.now)).into(),
            state.batch.map(|batch| batch.size).into(),
            state.batch.map(|batch| batch.crashes).into(),
            status_of.lag.into(),
        ]);
    }
    table
}

/// Leases that somebody holds, or held and did not give back.
fn leases(status: &Status) -> Table {
    let mut table = Table::new(["lease", "state", "holder", "since", "expires"]);
    let mut leases: Vec<_> = status.leases.iter().filter(|lease| lease.state.holding.is_some()).collect();
    leases.sort_by_key(|lease| lease.state.phase(status.now) != LeasePhase::Expired);
    for told in leases {
        let holding = told.state.holding.as_ref();
        table.row([
            text::excerpt(told.name.as_str(), NAME).into(),
            lease::state_name(told.state.phase(status.now)).to_owned().into(),
            holding.map(|holding| text::excerpt(holding.holder.as_str(), NAME)).into(),
            holding.map(|holding| ago(holding.since, status.now)).into(),
            holding.map(|holding| text::relative(holding.expires_at, status.now)).into(),
        ]);
    }
    table
}

/// Schedules, those that need somebody first, then by when they are due.
fn schedules(status: &Status) -> Table {
    let mut table = Table::new(["schedule", "queue", "next", "last", "missed", "state"]);
    let mut schedules: Vec<_> = status.schedules.iter().collect();
    schedules.sort_by_key(|schedule| {
        (schedule.trouble().is_none(), oldest_first(schedule.next.map(|next| next.due_at)), &schedule.definition.name)
    });
    for told in schedules {
        table.row([
            text::excerpt(told.definition.name.as_str(), NAME).into(),
            text::excerpt(told.definition.queue.as_str(), NAME).into(),
            told.next.map(|next| text::relative(next.due_at, status.now)).into(),
            told.last.map(|last| ago(last.fired_at, status.now)).into(),
            told.missed.into(),
            State::of(told, status.now).as_str().to_owned().into(),
        ]);
    }
    table
}

fn oldest_first(at: Option<Timestamp>) -> (bool, Option<Timestamp>) {
    (at.is_none(), at)
}

fn ago(at: Timestamp, now: Timestamp) -> String {
    // Whole seconds: what happened just now is none.
    text::duration(Duration::from_secs(now.since(at).as_secs())).replace("0 ms", "0 s")
}

fn next_step(status: &Status) -> Option<String> {
    let [first, ..] = &*status.queues else {
        return Some(match &*status.schedules {
            [] => "Nothing is here yet. Make a queue: fencepost queue create orders".into(),
            [first, ..] => {
                let queue = text::shell_word(first.definition.queue.as_str());
                format!("No queue is here. Make one that schedules send to: fencepost queue create {queue}")
            }
        });
    };
    let idle = status.consumers.is_empty() && status.queues.iter().all(|queue| queue.stored == 0);
    let name = text::shell_word(first.queue.as_str());
    idle.then(|| format!("No messages yet. Send one: fencepost send {name} 'hello' --key customer-7"))
}

/// Where to read on when something needs somebody.
fn trouble(status: &Status) -> Option<String> {
    let all = Slots::of(status.slots.iter(), status.now);
    let blocked = (all.blocked > 0).then(|| format!("{} locked by a transaction", counted(all.blocked, "slot")));
    let given_up = format!("{} with an open batch that nobody works on", counted(all.given_up, "slot"));
    let given_up = (all.given_up > 0).then_some(given_up);
    let waits_for_somebody = |schedule: &&ScheduleStatus| {
        let trouble = Trouble::of(schedule, status.queues.iter().map(|queue| &queue.queue));
        trouble.is_some_and(|trouble| trouble != Trouble::TargetBack)
    };
    let troubled = status.schedules.iter().filter(waits_for_somebody).count() as u64;
    let troubled = (troubled > 0).then(|| format!("{} with a problem", counted(troubled, "schedule")));
    let found: Vec<_> = blocked.into_iter().chain(given_up).chain(troubled).collect();
    (!found.is_empty()).then(|| format!("{}: `fencepost doctor` says what to do", found.join(", ")))
}
