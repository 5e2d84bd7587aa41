//! Tests of what this engine promises beyond the contract: durability, group commit, joined transactions, opening, wake-ups across
//! processes, and what happens to it when processes are killed and stopped.

mod cancelled;
mod crash_copy;
mod group_commit;
mod joined;
mod notices;
mod opening;
mod place;
mod plans;
mod puppet;
mod races;
mod schedules;
mod takeover;
mod wakes;
