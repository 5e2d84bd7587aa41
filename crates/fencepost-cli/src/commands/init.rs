//! `fencepost init`: makes the store, or brings its schema up to date. Doing it again changes nothing.

use fencepost::Result;
use serde_json::json;

use crate::open::{self, Opened};
use crate::printer::Printer;

/// Runs the command.
pub async fn run(url: &str, printer: &Printer) -> Result<()> {
    open::creating(url, async |store, opened| {
        let info = store.info();
        let human = || {
            let (what, version) = (format!("the store `{}`", info.location), info.schema_version);
            match opened {
                Opened::Created => format!("created {what} with schema version {version}"),
                Opened::Upgraded => format!("upgraded {what} to schema version {version}"),
                Opened::Current => format!("{what} is already current: schema version {version}"),
            }
        };
        printer.answer(human, || {
            json!({
                "outcome": opened.as_str(),
                "engine": info.engine,
                "location": info.location,
                "schema_version": info.schema_version,
            })
        })
    })
    .await
}
