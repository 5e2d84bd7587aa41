//! What the PostgreSQL engine promises beside the contract, on real servers.

mod cut;
mod dropping;
mod failover;
mod guards;
mod leases;
mod opening;
mod races;
#[path = "../stage/mod.rs"]
mod stage;
#[cfg(feature = "tls")]
mod tls;
mod transactions;
mod wakes;
