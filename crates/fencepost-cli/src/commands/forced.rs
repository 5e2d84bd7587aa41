//! What operators took by force, as it is shown.

use fencepost::Forced;
use serde_json::{Value, json};

use crate::table::{Show, Table};
use crate::text;

/// A history of one thing as a table for people.
pub fn table(history: &[Forced]) -> Table {
    let mut table = Table::new(["forced", "epoch", "from", "reason"]);
    for forced in history {
        table.row(cells(forced));
    }
    table
}

/// The cells of [`table`].
pub fn cells(forced: &Forced) -> [Show; 4] {
    [
        text::rfc3339(forced.at).into(),
        forced.epoch.to_string().into(),
        forced.from.clone().into(),
        forced.reason.to_string().into(),
    ]
}

/// One entry for programs.
pub fn json(forced: &Forced) -> Value {
    json!({
        "at": text::rfc3339(forced.at),
        "epoch": forced.epoch.get(),
        "from": forced.from,
        "reason": forced.reason.as_str(),
    })
}
