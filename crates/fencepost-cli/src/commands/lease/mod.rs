//! `fencepost lease …`

pub mod list;
pub mod release;
pub mod run;
pub mod show;

use fencepost::lease::Phase;
use fencepost::{Error, Kind, LeaseName, LeaseStatus, Result, Store, Timestamp};
use serde_json::{Value, json};

use crate::table::Table;
use crate::text;

/// Leases as a table for people.
pub fn table<'a>(leases: impl IntoIterator<Item = &'a LeaseStatus>, now: Timestamp) -> Table {
    let mut table = Table::new(["lease", "state", "holder", "epoch", "expires", "since"]);
    for LeaseStatus { name, state } in leases {
        let holding = state.holding.as_ref();
        table.row([
            name.to_string().into(),
            state_name(state.phase(now)).to_owned().into(),
            holding.map(|holding| holding.holder.to_string()).into(),
            holding.and(state.epoch).map(|epoch| epoch.to_string()).into(),
            holding.map(|holding| text::relative(holding.expires_at, now)).into(),
            holding.map(|holding| text::relative(holding.since, now)).into(),
        ]);
    }
    table
}

/// A lease for programs.
pub fn json(LeaseStatus { name, state }: &LeaseStatus, now: Timestamp) -> Value {
    let holding = state.holding.as_ref();
    json!({
        "name": name.as_str(),
        "state": state_name(state.phase(now)),
        "holder": holding.map(|holding| holding.holder.as_str()),
        "epoch": holding.and(state.epoch).map(|epoch| epoch.get()),
        "since": holding.map(|holding| text::rfc3339(holding.since)),
        "expires_at": holding.map(|holding| text::rfc3339(holding.expires_at)),
    })
}

/// The name of a lease's state.
pub const fn state_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Free => "free",
        Phase::Live => "held",
        Phase::Expired => "expired",
    }
}

/// How one lease stands.
///
/// # Errors
/// `not_found` when nobody ever acquired it.
async fn find(store: &Store, name: &LeaseName) -> Result<LeaseStatus> {
    store.lease(name).await?.ok_or_else(|| {
        Error::new(Kind::NotFound, format!("cannot find the lease `{name}`"))
            .with("lease", name)
            .hinted("`fencepost lease list` shows the leases there are; acquiring one makes it")
    })
}
