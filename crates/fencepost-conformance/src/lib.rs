//! The suite that every engine passes: one case a rule, run against the contract and never against an engine by name.
//!
//! An engine implements [`Harness`] in its tests and commits its own list of cases with [`suite!`]: a skip is a diff, and a case
//! that the list does not know is a red test. The cases themselves are in [`cases`], one file a primitive.
//!
//! [`differential`] compares two stores by random calls.

mod catalog;
mod dropped;
mod ground;
mod harness;
mod stage;
mod suite;

pub mod cases;
pub mod differential;

pub use catalog::{Case, catalog, compare};
pub use dropped::{dropped_after, poll_once};
pub use harness::{End, Harness, Step, StepOutcome};
pub use suite::run;
