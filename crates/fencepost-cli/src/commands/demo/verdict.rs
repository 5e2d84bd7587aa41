//! Compares the workers' table with the plain single pass, row by row, and says so. Anything that differs fails loudly.

use anstyle::{AnsiColor, Style};
use fencepost::{Error, Kind, Result};
use serde_json::json;

use super::input::{Expected, Input, RowKey};
use super::stage::Figures;
use super::story::{messages, number};
use super::table::Rows;
use crate::text::counted;

const GOOD: Style = AnsiColor::Green.on_default().bold();
const LABEL: Style = Style::new().dimmed();

/// How many differences are shown.
const SHOWN: usize = 5;

/// Prints the figures and the verdict.
///
/// # Errors
/// `internal` with code `demo_differs` when the table is not exactly right, or when a planned fault did not happen on the
/// built-in input.
pub fn give(figures: &Figures, expected: &Expected, rows: &Rows, input: &Input, place: &str) -> Result<()> {
    let processed: u64 = rows.values().map(|row| row.tally.legs).sum();
    let lost = figures.sent.saturating_sub(processed);
    let out_of_order: u64 = rows.values().map(|row| row.out_of_order).sum();
    let differences = differences(expected, rows);
    let right = differences.is_empty() && lost == 0 && out_of_order == 0 && processed == figures.sent;
    let seconds = figures.elapsed.as_secs_f64();

    if let Some(printer) = figures.printer {
        let human = || {
            let line = |label: &str, text: String| format!("{LABEL}{label:>14}{LABEL:#}  {text}\n");
            let mut text = String::from("\n");
            text += &line("sent", messages(figures.sent));
            text += &line(
                "processed",
                format!("{} · {} lost · {} out of order", number(processed), number(lost), number(out_of_order)),
            );
            text += &line("redelivered", messages(figures.redelivered));
            text += &line("takeovers", number(figures.takeovers));
            text += &line("refused", format!("{} by epoch", number(figures.fenced)));
            text += &line("time", time(figures, seconds));
            if let Some(none) = expected.rows.get(&None) {
                text += &line("row (none)", format!("{} without a key, summed up without an order", number(none.legs)));
            }
            if right {
                text += &format!(
                    "\n{GOOD}The table equals a plain single pass over the file, row for row: {}.{GOOD:#}\n\
                     It stays {place}.\n",
                    counted(rows.len() as u64, "row"),
                );
            }
            text
        };
        printer.answer(human, || {
            json!({
                "sent": figures.sent, "processed": processed, "lost": lost, "out_of_order": out_of_order,
                "redelivered": figures.redelivered, "fenced": figures.fenced, "takeovers": figures.takeovers,
                "seconds": (seconds * 1_000.0).round() / 1_000.0,
            })
        })?;
    }
    if !right {
        let shown: Vec<&str> = differences.iter().take(SHOWN).map(String::as_str).collect();
        return Err(Error::new(
            Kind::Internal,
            format!("the table differs from a plain single pass in {} rows: {}", differences.len(), shown.join("; ")),
        )
        .coded("demo_differs")
        .with("lost", lost)
        .with("out_of_order", out_of_order)
        .hinted("this must never happen: please report it with the output above"));
    }
    missing_faults(figures, input)
}

/// On somebody's own input a worker may never have had a batch to be killed in; on the built-in one it must.
fn missing_faults(figures: &Figures, input: &Input) -> Result<()> {
    let (killed, paused) = figures.faults;
    let (kill, pause) = figures.planned;
    if (killed, paused) == (kill, pause) && figures.fenced >= u64::from(pause) {
        return Ok(());
    }
    let what = format!(
        "{killed} of {kill} workers were killed and {paused} of {pause} paused, {} calls were refused",
        figures.fenced
    );
    if matches!(input, Input::Flights) {
        return Err(Error::new(Kind::Internal, format!("the table is right, but the show was not: {what}"))
            .coded("demo_incomplete")
            .hinted("please report it with the output above"));
    }
    if let Some(printer) = figures.printer {
        printer.note(&format!("note: {what}: too few keys or records for every worker to get a batch"));
    }
    Ok(())
}

fn time(figures: &Figures, seconds: f64) -> String {
    let whole = format!("{seconds:.1} s");
    match figures.busy {
        Some((busy, handled)) if handled >= 1_000 => {
            format!("{whole}; {} messages/s before the wait", number((handled as f64 / busy.as_secs_f64()) as u64))
        }
        _ if figures.sent < 1_000 => whole,
        _ => format!("{whole}; {} messages/s", number((figures.sent as f64 / seconds.max(0.001)) as u64)),
    }
}

fn differences(expected: &Expected, rows: &Rows) -> Vec<String> {
    let name = |key: &RowKey| key.as_deref().unwrap_or("(none)").to_owned();
    let mut found = Vec::new();
    for (key, tally) in &expected.rows {
        match rows.get(key) {
            Some(row) if row.tally == *tally => {}
            Some(row) => found.push(format!("`{}` has {:?}, expected {tally:?}", name(key), row.tally)),
            None => found.push(format!("`{}` is missing", name(key))),
        }
    }
    found.extend(
        rows.keys().filter(|key| !expected.rows.contains_key(*key)).map(|key| format!("`{}` is too much", name(key))),
    );
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::commands::demo::table::Row;
    use crate::commands::demo::tally::Tally;

    fn figures(sent: u64) -> Figures {
        Figures { sent, ..Figures::default() }
    }

    fn table(legs: u64) -> (Expected, Rows) {
        let key = Some("N1".to_owned());
        let tally = Tally { legs, ..Tally::default() };
        let expected = Expected { rows: BTreeMap::from([(key.clone(), tally.clone())]), records: legs };
        (expected, BTreeMap::from([(key, Row { tally, ..Row::default() })]))
    }

    #[test]
    fn an_equal_table_is_right() {
        let (expected, rows) = table(2);
        assert!(give(&figures(2), &expected, &rows, &Input::Flights, "in a table").is_ok());
    }

    #[test]
    fn whatever_differs_is_a_failure() {
        let key = Some("N1".to_owned());
        let spoilers: [fn(&mut Row); 4] = [
            |row| row.tally.checksum ^= 1,
            |row| row.tally.legs += 1,
            |row| row.out_of_order = 1,
            |row| row.tally.last_dest = Some("X".into()),
        ];
        for spoil in spoilers {
            let (expected, mut rows) = table(2);
            spoil(rows.get_mut(&key).unwrap());
            assert_eq!(
                give(&figures(2), &expected, &rows, &Input::Flights, "in a table").unwrap_err().code(),
                "demo_differs"
            );
        }
        let (expected, mut rows) = table(2);
        rows.insert(None, Row::default());
        assert!(give(&figures(2), &expected, &rows, &Input::Flights, "in a table").is_err());
        rows.clear();
        assert!(give(&figures(2), &expected, &rows, &Input::Flights, "in a table").is_err());
    }

    #[test]
    fn a_fault_that_did_not_happen_fails_on_the_built_in_input_only() {
        let (expected, rows) = table(2);
        let figures = Figures { planned: (1, 1), ..figures(2) };
        assert_eq!(
            give(&figures, &expected, &rows, &Input::Flights, "in a table").unwrap_err().code(),
            "demo_incomplete"
        );
    }
}
