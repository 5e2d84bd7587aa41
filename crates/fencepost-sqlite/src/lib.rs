//! The SQLite engine of fencepost: one host, many processes, one file.
//!
//! One thread per open store writes; callers that arrive together share one durable transaction, each in a savepoint of its own,
//! and are answered after the commit. A few more threads read. Nothing here decides what a call means: the transition tables of
//! `fencepost-core` do, run on state that was read under the write lock.
//!
//! Not promised: more than one host (network file systems are refused), and progress while some process is stopped inside a
//! write transaction of this file. The engine's own transactions are short and never wait for a caller.

mod aside;
mod check;
mod connection;
mod consumer;
mod dead;
mod error;
mod file;
mod forced;
mod grant;
mod guard;
mod lease;
mod log;
mod look;
mod maintain;
mod member;
mod notice;
mod options;
mod pace;
mod queue;
mod reader;
mod readers;
mod schedule;
mod schema;
mod slot;
mod state;
mod statement;
mod store;
mod transaction;
mod watch;
mod writer;

pub use check::{FileCheck, FileSize, LOG_BYTES, leftovers};
pub use error::driver_error;
pub use options::{SqliteOptions, Synchronous};
pub use rusqlite;
pub use store::SqliteStore;
pub use transaction::WriteTransaction;
