//! The lines of the report: which measure of which row, who has it, what a power cut may take, and what is aimed at.

use std::time::Duration;

use fencepost_bench_rows::{Acks, Row, Synchronous};

use super::{Options, Side};

/// What is aimed at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// So many times the peer's rate, or more.
    Times(f64),
    /// So much or less, whatever the peer has.
    AtMost(f64),
    /// Nothing; it is only reported.
    None,
}

/// One line.
#[derive(Debug, Clone)]
pub struct Line {
    pub title: String,
    pub row: Row,
    pub measure: &'static str,
    /// What one answered call makes safe.
    pub contract: &'static str,
    pub target: Target,
}

impl Line {
    /// Who is measured. The peer's claims slow down with the depth, so that it would drain a million for hours.
    pub fn sides(&self) -> &'static [Side] {
        match self.row {
            Row::Drain { .. } => &[Side::Fencepost(Synchronous::Full)],
            _ => &Side::ALL,
        }
    }
}

const SENDS: &str = "per send";
const BATCHES: &str = "per receive and per ack of a batch";
const CHAINED: &str = "per ack of a batch, with the next receive";
const LATENCY: &str = "per send, per receive";
const NOTHING: &str = "nothing written";

/// Every line, in order.
pub fn lines(options: &Options) -> Vec<Line> {
    let time = Duration::from_millis(options.time);
    let mut lines = vec![Line {
        title: "send, 64 callers, /s".into(),
        row: Row::Send { callers: 64, time },
        measure: "rate",
        contract: SENDS,
        target: Target::Times(5.0),
    }];
    let takes = options.depths.iter().map(|depth| (100, *depth, 5.0)).chain([(1, 10_000, 10.0)]);
    for (max, depth, times) in takes {
        for (acks, form, contract) in
            [(Acks::Apart, "receive({max}) + ack", BATCHES), (Acks::WithNext, "ack_receive({max})", CHAINED)]
        {
            for (measure, also) in [("taking", ""), ("rate", " + removal")] {
                lines.push(Line {
                    title: format!("{}{also}, depth {depth}, messages/s", form.replace("{max}", &max.to_string())),
                    row: Row::Take { acks, max, depth, time },
                    measure,
                    contract,
                    target: Target::Times(times),
                });
            }
        }
    }
    let mut add = |row, measure, title: &str, contract, target| {
        lines.push(Line { title: title.into(), row, measure, contract, target });
    };
    let (within, across) = (Row::WakeWithin { count: options.wakes }, Row::WakeAcross { count: options.wakes });
    add(within, "p50", "send to receipt by a sleeper, one process, p50 ms", LATENCY, Target::AtMost(1.0));
    add(within, "p99", "send to receipt by a sleeper, one process, p99 ms", LATENCY, Target::AtMost(1.0));
    add(across, "p50", "send to receipt by a sleeper, two processes, p50 ms", LATENCY, Target::AtMost(5.0));
    add(across, "p99", "send to receipt by a sleeper, two processes, p99 ms", LATENCY, Target::AtMost(5.0));
    let idle = Row::Idle { time: Duration::from_millis(options.idle) };
    add(idle, "processor", "idle worker, % of a core", NOTHING, Target::AtMost(0.5));
    add(idle, "written", "idle worker, bytes written", NOTHING, Target::None);
    add(idle, "moments", "idle worker, quarters of a second with a write", NOTHING, Target::AtMost(1.0));
    let drain = Row::Drain { count: options.backlog };
    add(drain, "fill_rate", "backlog: send_batch(1,000), messages/s", "per batch of 1,000", Target::None);
    add(drain, "drain_rate", "backlog: ack_receive(100), messages/s", CHAINED, Target::None);
    add(drain, "peak_memory", "backlog: peak memory, MiB", CHAINED, Target::AtMost(64.0));
    for (measure, title) in [
        ("size_full", "backlog: files when it is there, MiB"),
        ("size_half", "backlog: files half-way, MiB"),
        ("size_end", "backlog: files at the end, MiB"),
        ("size_steady", "backlog: files after 300,000 more, MiB"),
    ] {
        add(drain, measure, title, CHAINED, Target::None);
    }
    lines
}
