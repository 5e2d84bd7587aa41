//! `fencepost lease list`: who holds which lease.

use fencepost::Result;
use serde_json::json;

use crate::open;
use crate::printer::Printer;

/// Runs the command.
pub async fn run(url: &str, printer: &Printer) -> Result<()> {
    open::existing(url, async |store| {
        let (leases, now) = (store.lease_status().await?, store.now().await?);
        let human = || match &*leases {
            [] => "no leases yet; `fencepost lease run NAME -- CMD` acquires one".into(),
            leases => super::table(leases, now).render(),
        };
        printer.answer(
            human,
            || json!({"leases": leases.iter().map(|status| super::json(status, now)).collect::<Vec<_>>()}),
        )
    })
    .await
}
