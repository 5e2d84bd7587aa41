//! Tests of workers, kept leases and terms over the model engine: sharing, waiting, stopping, losing, failing, and leaving nothing
//! behind.
//!
//! Nearly all of them live in virtual time, which passes when nothing else is to be done. Deadlines are watched by a thread in real
//! time, so the few tests about those wait for real.

mod campaigns;
mod deadlines;
mod dispositions;
mod dropped;
mod failing;
mod leases;
mod leaving;
mod maintaining;
mod schedules;
mod shares;
mod spy;
mod stage;
mod stopping;
mod waiting;
