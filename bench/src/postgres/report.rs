//! The report: what was measured, with its spread, and what is aimed at.

use super::held::{LEASE, QUEUE, RETRIES};
use super::{DRAINS, Side, key};
use crate::figures::Figures;

/// Everything, a line each.
pub fn figures(figures: &Figures) -> String {
    let mut text =
        String::from("| row | side | measure | median | least | most |\n| --- | --- | --- | ---: | ---: | ---: |\n");
    for row in figures.rows() {
        if let Some((least, median, most)) = figures.spread(row) {
            text += &format!("| {row} | {} | {} | {} |\n", number(median), number(least), number(most));
        }
    }
    text
}

/// What is aimed at, with what was reached: ratios are of the same round, and their median counts.
pub fn targets(figures: &Figures) -> String {
    let mut text =
        String::from("| aim | measured | target | | safe at an answer |\n| --- | ---: | --- | --- | --- |\n");
    for aim in aims() {
        let value = match &aim.base {
            Some(base) => figures.ratio_spread(&aim.of, base),
            None => figures.spread(&aim.of),
        };
        let Some((least, median, most)) = value else { continue };
        let (bound, reached) = match aim.target {
            Target::AtLeast(bound) => (format!("≥ {bound}"), median >= bound),
            Target::AtMost(bound) => (format!("≤ {bound}"), median <= bound),
        };
        let verdict = if reached { "reached" } else { "missed" };
        let measured = format!("{} ({}–{})", number(median), number(least), number(most));
        text += &format!("| {} | {measured} | {bound} | {verdict} | {} |\n", aim.title, aim.contract);
    }
    text
}

enum Target {
    AtLeast(f64),
    AtMost(f64),
}

struct Aim {
    title: String,
    of: String,
    base: Option<String>,
    target: Target,
    /// What a power cut leaves of what was answered.
    contract: &'static str,
}

fn aims() -> Vec<Aim> {
    use Target::{AtLeast, AtMost};
    const MESSAGE: &str = "the message";
    const BATCH: &str = "the batch";
    const GRANT: &str = "the change";
    let mut aims = Vec::new();
    let mut add = |title: String, of: String, base: Option<String>, target: Target, contract: &'static str| {
        aims.push(Aim { title, of, base, target, contract });
    };
    for side in [Side::Sql, Side::Store] {
        for (base, least) in [(Side::Pgque, 1.3), (Side::Raw, 0.7), (Side::Alkstore, 1.0)] {
            let (of, base_key) = (key("send", side, "rate"), key("send", base, "rate"));
            add(format!("send, {side} / {base}"), of, Some(base_key), AtLeast(least), MESSAGE);
        }
    }
    let (of, base) = (key("send", Side::Sql, "rate"), key("send", Side::Quiet, "rate"));
    add("send, with wake-ups / without".into(), of, Some(base), AtLeast(0.9), MESSAGE);
    for (size, least) in [(100, 1.0), (1_000, 0.8)] {
        let row = format!("send_batch {size}");
        for side in [Side::Sql, Side::Store] {
            for (base, least) in [(Side::Pgque, least), (Side::Raw, 0.7)] {
                let (of, base_key) = (key(&row, side, "rate"), key(&row, base, "rate"));
                add(format!("{row}, {side} / {base}"), of, Some(base_key), AtLeast(least), BATCH);
            }
        }
    }
    for drain in DRAINS {
        let row = drain.title();
        let of_ticks = match drain.consumers {
            1 => 1.6,
            4 => 2.4,
            _ => 10.0,
        };
        for side in [Side::Sql, Side::Store] {
            for (base, least) in [(Side::Pgque, of_ticks), (Side::PgqueLarge, 1.5)] {
                let (of, base_key) = (key(&row, side, "rate"), key(&row, base, "rate"));
                add(format!("{row}, {side} / {base}"), of, Some(base_key), AtLeast(least), BATCH);
            }
        }
    }
    for (most, max) in [(16, 100), (64, 100), (16, 500), (64, 500)] {
        for measure in ["tuples", "buffers"] {
            let row = |n: i64| key(&format!("drain n = {n}, max {max}"), Side::Sql, measure);
            let title = format!("drain, max {max}, {measure} a message, n = {most} / n = 1");
            add(title, row(most), Some(row(1)), AtMost(1.2), BATCH);
        }
    }
    for side in [Side::Sql, Side::Store] {
        for call in ["acquire", "renew", "release"] {
            let (of, base) = (key("lease", side, call), key("lease", side, "update"));
            add(format!("lease {call}, {side} / bare UPDATE"), of, Some(base), AtMost(1.5), GRANT);
        }
        let (of, base) = (key("lease", side, "rate"), key("lease", Side::Alkstore, "rate"));
        add(format!("lease pair, {side} / alkstore"), of, Some(base), AtLeast(3.0), GRANT);
    }
    for (measure, most) in [("p50", 3.0), ("p99", 30.0)] {
        let of = key("wake", Side::Store, measure);
        add(format!("send to handler of an idle worker, {measure} ms"), of, None, AtMost(most), MESSAGE);
    }
    let of = key("takeover", Side::Store, "after");
    add("handled after the kill of an owner with a TTL of 2 s, ms".into(), of, None, AtMost(2_250.0), MESSAGE);
    for measure in ["xids", "wal"] {
        let of = key("empty poll", Side::Store, measure);
        add(format!("1,000 empty polls, {measure}"), of, None, AtMost(0.0), "nothing written");
    }
    let of = key("idle worker", Side::Store, "% of a core");
    add("idle worker, % of a core".into(), of, None, AtMost(0.5), "nothing written");
    for row in [QUEUE, RETRIES, LEASE] {
        add(format!("{row}, last / first"), key(row, Side::Store, "kept"), None, AtLeast(0.8), GRANT);
        let of = key(row, Side::Store, "buffers, last / first");
        add(format!("{row}, buffers a round, last / first"), of, None, AtMost(1.1), GRANT);
    }
    for row in [QUEUE, RETRIES] {
        let of = key(row, Side::Store, "dead rows of log and state");
        add(format!("{row}, dead rows in log and state"), of, None, AtMost(0.0), BATCH);
    }
    aims
}

fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
