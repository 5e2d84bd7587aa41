//! The PostgreSQL engine of fencepost: many hosts, one database.
//!
//! Every transition is a function of the schema `fencepost`, written in `sql/functions`; this crate installs them, calls them and
//! says what their answers mean. Nothing here decides what a call means, and no client's clock decides anything.
//!
//! A call is one statement in a transaction of its own; where sessions begin at another isolation level than READ COMMITTED, or a batch
//! of messages takes several round trips, it is one transaction. No call relies on what an earlier one left in its session, so they
//! work behind a pooler in transaction mode. The one session with a state listens for notifications, on a connection of its own and
//! while somebody sleeps; where none arrive, looking does.

mod batch;
mod check;
mod connection;
mod consumer;
mod dead;
mod deliver;
mod error;
mod lease;
mod listen;
mod member;
mod notice;
mod numbered;
mod options;
mod queue;
mod reader;
mod schedule;
mod schema;
mod slot;
mod source;
mod store;
mod time;
mod transaction;
mod vitals;
mod wake;

pub use check::{BlockedSlot, DeadRows, OpenTransaction, PreparedTransaction, ServerCheck};
pub use error::driver_error;
pub use listen::Hearing;
pub use options::PostgresOptions;
#[doc(hidden)]
pub use source::carried_checksum;
pub use store::PostgresStore;
pub use tokio_postgres;
pub use transaction::TransactionCalls;
pub use vitals::ServerVitals;
