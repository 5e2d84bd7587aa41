//! The model engine of fencepost: the simplest correct code, in memory, and the oracle for the other engines.
//!
//! One mutex guards one state. A transaction works on a copy that is made at its first change, and swaps it in when it commits;
//! what changes nothing writes nothing. Nothing here decides what a call means: the transition tables of `fencepost-core` do.

mod aside;
mod consumer;
mod dead;
mod lease;
mod member;
mod notice;
mod queue;
mod schedule;
mod slot;
mod state;
mod store;
mod transaction;

pub use store::MemStore;
pub use transaction::MemTransaction;
