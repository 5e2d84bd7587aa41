//! The report: medians with their spread, ratios, and whether what is aimed at was reached.

use fencepost_bench_rows::{Acks, Row, Synchronous};

use super::Side;
use super::lines::{Line, Target};
use crate::figures::Figures;

const FULL: Side = Side::Fencepost(Synchronous::Full);
const NORMAL: Side = Side::Fencepost(Synchronous::Normal);

/// One row a line.
pub fn table(lines: &[Line], figures: &Figures) -> String {
    let mut text = String::from(
        "| row | alkstore, NORMAL | fencepost, NORMAL | ratio | fencepost, FULL | ratio | target | | safe |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | --- | --- | --- |\n",
    );
    for line in lines {
        let cell = |side: Side| spread(figures.spread(&side.key(line.row, line.measure)));
        let ratio = |side| match ratio(line, figures, side) {
            Some(ratio) if matches!(line.target, Target::Times(_)) => format!("{ratio:.1}"),
            _ => String::new(),
        };
        text += &format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
            line.title,
            cell(Side::Peer),
            cell(NORMAL),
            ratio(NORMAL),
            cell(FULL),
            ratio(FULL),
            target(line.target),
            verdict(line, figures),
            line.contract,
        );
    }
    text
}

/// How each form of receiving fares at the greatest depth beside the least.
pub fn flatness(lines: &[Line], figures: &Figures) -> String {
    let mut text =
        String::from("| rate at the greatest depth / at the least (target 0.8 to 1.2) | |\n| --- | ---: |\n");
    for side in Side::ALL {
        for (form, measure) in
            [Acks::Apart, Acks::WithNext].into_iter().flat_map(|form| [(form, "taking"), (form, "rate")])
        {
            let rates: Vec<f64> = lines
                .iter()
                .filter(|line| line.measure == measure)
                .filter(|line| matches!(line.row, Row::Take { acks, max: 100, .. } if acks == form))
                .map(|line| figures.median(&side.key(line.row, line.measure)))
                .collect();
            if let [least, .., greatest] = rates.as_slice() {
                text += &format!("| {side:?}, {form:?}, {measure} | {:.2} |\n", greatest / least);
            }
        }
    }
    text
}

fn spread(spread: Option<(f64, f64, f64)>) -> String {
    match spread {
        Some((least, median, most)) => format!("{} ({}–{})", number(median), number(least), number(most)),
        None => String::new(),
    }
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 || value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn ratio(line: &Line, figures: &Figures, side: Side) -> Option<f64> {
    let (_, ours, _) = figures.spread(&side.key(line.row, line.measure))?;
    let (_, theirs, _) = figures.spread(&Side::Peer.key(line.row, line.measure))?;
    Some(ours / theirs)
}

fn target(target: Target) -> String {
    match target {
        Target::Times(times) => format!("≥ {times} ×"),
        Target::AtMost(most) => format!("≤ {most}"),
        Target::None => String::new(),
    }
}

/// Judges the durable side; the other one only where that falls short.
fn verdict(line: &Line, figures: &Figures) -> &'static str {
    let reached = |side: Side| match line.target {
        Target::Times(times) => ratio(line, figures, side).is_some_and(|ratio| ratio >= times),
        Target::AtMost(most) => figures.median(&side.key(line.row, line.measure)) <= most,
        Target::None => true,
    };
    match line.target {
        Target::None => "",
        _ if reached(FULL) => "reached",
        _ if reached(NORMAL) => "with NORMAL",
        _ => "missed",
    }
}
