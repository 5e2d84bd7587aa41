//! What the PostgreSQL engine promises beside the contract, on real servers.

mod aside;
mod blocked;
mod checked;
mod cut;
mod dropping;
mod drops;
mod failover;
mod guards;
mod hosts;
mod idle;
mod leases;
mod levels;
mod logs;
mod mixed;
mod names;
mod notices;
mod numbers;
mod opening;
mod outages;
mod pooled;
mod races;
mod readers;
mod restores;
mod rotation;
mod schedules;
mod script;
mod silent;
mod slot_races;
#[path = "../stage/mod.rs"]
mod stage;
#[cfg(feature = "tls")]
mod tls;
mod transactions;
mod wakes;
