//! What tests need from outside: real PostgreSQL servers, a database each, pgbouncer, and a network that fails on demand.
//!
//! A test takes a database of its own on a server that all tests share, or a server of its own when it kills or restarts it.
//! Nothing that is started here outlives its use, however the test ended. It knows no crate of the project.

mod account;
mod bouncer;
mod cluster;
mod database;
mod error;
mod guard;
mod place;
mod programs;
mod proxy;
mod server;
mod shared;
mod skip;
mod standby;
mod template;

pub use bouncer::PgBouncer;
pub use database::TestDatabase;
pub use error::Unavailable;
pub use programs::{DEFAULT_MAJOR, MAJORS, installed_majors};
pub use proxy::{Fault, FaultProxy};
pub use server::{PgServer, PrivateServer};
pub use skip::skip_or_fail;
