//! What the PostgreSQL engine promises beside the contract, on real servers.

mod checked;
mod cut;
mod drops;
mod failover;
mod guards;
mod leases;
mod opening;
mod races;
mod rotation;
mod script;
mod slot_races;
mod readers;
#[path = "../stage/mod.rs"]
mod stage;
#[cfg(feature = "tls")]
mod tls;
mod transactions;
mod wakes;
