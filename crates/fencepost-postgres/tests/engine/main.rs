//! What the PostgreSQL engine promises beside the contract, on real servers.

mod cut;
mod guards;
mod leases;
mod opening;
#[path = "../stage/mod.rs"]
mod stage;
