//! The migration lock on real servers: who is let through, what is left behind, and what becomes of a session that is in doubt.

mod cancelled;
mod database;
mod exclusion;
mod holder;
mod index;
mod lease;
mod lost;
mod pooler;
mod process;
mod release;
#[cfg(feature = "sqlite")]
mod sqlite;
