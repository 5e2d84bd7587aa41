//! The status as Prometheus scrapes it: its text format, version 0.0.4.
//!
//! Labels are names that operators chose, of queues and consumers, never those of workers, keys, leases or epochs: what there is of series does
//! not grow with what there is of work.

use std::fmt::{Display, Write};

use fencepost::lease::Phase;

use super::{Status, Storage};
use crate::commands::schedule::{self, state::State};

/// The document, a family of gauges after the other.
pub fn exposition(status: &Status) -> String {
    let mut text = Text::default();
    let info = &status.info;
    let (schema, version) = (info.schema_version.to_string(), &*info.engine_version);
    let labels = [("engine", info.engine), ("engine_version", version), ("schema_version", &schema)];
    text.gauge("fencepost_info", "What the store is.", [(labels, 1)]);
    let now = seconds(status.now.as_micros());
    text.gauge("fencepost_status_time_seconds", "When this was read, by the engine's clock.", [([], now)]);
    storage(&mut text, &status.storage);
    queues(&mut text, status);
    consumers(&mut text, status);
    let dead = status.dead.iter().map(|(path, dead)| (of(path.queue.as_str(), path.consumer.as_str()), *dead));
    text.gauge("fencepost_dead_letters", "Messages that a consumer gave up, dropped consumers included.", dead);
    let states = [("free", Phase::Free), ("held", Phase::Live), ("expired", Phase::Expired)].map(|(name, phase)| {
        let many = status.leases.iter().filter(|lease| lease.state.phase(status.now) == phase).count();
        ([("state", name)], many)
    });
    text.gauge("fencepost_leases", "Leases by their state.", states);
    schedules(&mut text, status);
    text.0
}

fn schedules(text: &mut Text, status: &Status) {
    let all = &status.schedules;
    let states = State::ALL.map(|state| {
        ([("state", state.as_str())], all.iter().filter(|schedule| State::of(schedule, status.now) == state).count())
    });
    text.gauge("fencepost_schedules", "Schedules by their state.", states);
    let overdue = schedule::state::overdue(all, status.now).unwrap_or_default().as_secs_f64();
    let help = "How long ago the first schedule was due that was not fired; 0 without one.";
    text.gauge("fencepost_schedules_overdue_seconds", help, [([], overdue)]);
    let missed: u64 = all.iter().map(|schedule| schedule.missed).fold(0, u64::saturating_add);
    text.gauge("fencepost_schedules_missed_times", "Times that schedules have left out.", [([], missed)]);
}

fn storage(text: &mut Text, storage: &Storage) {
    const BYTES: &str = "What the store takes on its disk.";
    match storage {
        Storage::Memory => {}
        Storage::File(size) => {
            text.gauge("fencepost_storage_bytes", BYTES, [([], size.bytes)]);
            let log = "The size of the write-ahead log.";
            text.gauge("fencepost_storage_log_bytes", log, [([], size.log_bytes)]);
            let free = "What the file system of the store has left.";
            text.gauge("fencepost_storage_free_bytes", free, size.free_bytes.map(|free| ([], free)));
        }
        Storage::Server(vitals) => {
            text.gauge("fencepost_storage_bytes", BYTES, [([], vitals.bytes)]);
            let standby = "Whether the server follows another one and takes no writes.";
            text.gauge("fencepost_server_in_recovery", standby, [([], u8::from(vitals.in_recovery))]);
            let connections = "Connections of clients to the server.";
            text.gauge("fencepost_server_connections", connections, [([], vitals.connections)]);
            let most = "As many connections as the server takes.";
            text.gauge("fencepost_server_max_connections", most, [([], vitals.max_connections)]);
            let arrive = "Whether notifications arrive; otherwise sleepers look by themselves.";
            text.gauge("fencepost_notifications_arrive", arrive, [([], u8::from(vitals.notifies))]);
        }
    }
}

fn queues(text: &mut Text, status: &Status) {
    let each = || status.queues.iter().map(|queue| ([("queue", queue.queue.as_str())], queue));
    let stored = "Messages in storage, consumed ones that were not removed yet included.";
    text.gauge("fencepost_queue_stored_messages", stored, each().map(|(label, queue)| (label, queue.stored)));
    let delayed = "Messages that are not due yet.";
    text.gauge("fencepost_queue_delayed_messages", delayed, each().map(|(label, queue)| (label, queue.delayed)));
    let age = "The age of the oldest message in storage; 0 without one.";
    let ages = each().map(|(label, queue)| {
        (label, seconds(queue.oldest_at.map_or(0, |at| status.now.since(at).as_micros() as i64)))
    });
    text.gauge("fencepost_queue_oldest_message_age_seconds", age, ages);
    let paused = "Whether the queue hands out nothing new.";
    text.gauge("fencepost_queue_paused", paused, each().map(|(label, queue)| (label, u8::from(queue.paused))));
}

fn consumers(text: &mut Text, status: &Status) {
    let all: Vec<_> = status
        .consumers()
        .map(|(told, slots)| (of(told.path.queue.as_str(), told.path.consumer.as_str()), told, slots))
        .collect();
    let mut gauge = |name, help, value: &dyn Fn(usize) -> u64| {
        text.gauge(name, help, all.iter().enumerate().map(|(at, (labels, ..))| (*labels, value(at))));
    };
    gauge("fencepost_consumer_lag_messages", "Messages that are neither acked nor dead.", &|at| all[at].1.lag);
    gauge("fencepost_consumer_in_flight_messages", "Messages of open batches.", &|at| all[at].2.in_flight);
    gauge("fencepost_consumer_retrying_messages", "Messages that failed and come again.", &|at| all[at].1.retrying);
    let parked = "Messages that wait for an earlier one of their key.";
    gauge("fencepost_consumer_parked_messages", parked, &|at| all[at].1.parked);
    gauge("fencepost_consumer_workers", "Workers whose membership is live.", &|at| all[at].1.workers.into());
    gauge("fencepost_consumer_slots", "Slots of the consumer.", &|at| all[at].2.all);
    gauge("fencepost_consumer_live_slots", "Slots that somebody owns.", &|at| all[at].2.live);
    gauge("fencepost_consumer_blocked_slots", "Slots that a transaction has locked.", &|at| all[at].2.blocked);
    let abandoned = "Slots with an open batch that nobody works on.";
    gauge("fencepost_consumer_abandoned_slots", abandoned, &|at| all[at].2.given_up);
    let lag = "How long ago the first message was sent that is neither acked nor dead; 0 without one.";
    let lags = all.iter().map(|(labels, told, _)| {
        (*labels, seconds(told.first_at.map_or(0, |at| status.now.since(at).as_micros() as i64)))
    });
    text.gauge("fencepost_consumer_lag_seconds", lag, lags);
}

const fn of<'a>(queue: &'a str, consumer: &'a str) -> [(&'static str, &'a str); 2] {
    [("queue", queue), ("consumer", consumer)]
}

/// Microseconds as Prometheus has them.
fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}

#[derive(Default)]
struct Text(String);

impl Text {
    /// A family: what it is, then a line for each of its samples. One without samples is left out.
    fn gauge<'a, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = ([(&'static str, &'a str); N], impl Display)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (labels, value) in samples {
            let labels = labels.map(|(label, value)| format!("{label}=\"{}\"", escaped(value)));
            let labels = if N == 0 { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(self.0, "{name}{labels} {value}");
        }
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}
