//! What tests need from outside: real PostgreSQL servers, a database each, pgbouncer, and a network that fails on demand.
//!
//! A test takes a database of its own on a server that all tests share, or a server of its own when it kills or restarts it.
//! Nothing that is started here outlives its use, however the test ended. It knows no crate of the project.
//!
//! ```
//! use fencepost_test_support::{FaultProxy, PgServer, skip_or_fail};
//!
//! # async fn install(_url: String) -> Result<(), tokio_postgres::Error> { Ok(()) }
//! # async fn a_test() {
//! // Left out, and counted, where PostgreSQL is not installed.
//! let Some(server) = skip_or_fail(PgServer::shared().await) else { return };
//! // Installed once, copied for every test, dropped with the value.
//! let database = server.database_from("schema 7", install).await.unwrap();
//!
//! let proxy = FaultProxy::start(server.address()).await.unwrap();
//! let (client, connection) = tokio_postgres::connect(&proxy.url(&database.url()), tokio_postgres::NoTls).await.unwrap();
//! tokio::spawn(connection);
//! let lost = proxy.lose_reply("COMMIT");
//! assert!(client.batch_execute("BEGIN; CREATE TABLE there (); COMMIT").await.is_err());
//! lost.happened().await;
//! // The commit is done, though its answer did not come.
//! database.connect().await.unwrap().batch_execute("SELECT FROM there").await.unwrap();
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(a_test());
//! ```

mod account;
mod bouncer;
mod cluster;
mod database;
mod dump;
mod error;
mod guard;
mod left_over;
mod place;
mod programs;
mod proxy;
mod random;
mod server;
mod shared;
mod skip;
mod standby;
mod template;

pub use bouncer::PgBouncer;
pub use database::TestDatabase;
pub use error::Unavailable;
pub use programs::{
    DEFAULT_MAJOR, MAJORS, installed_majors, java_with_jdbc, node_modules_with_pg, psql, python_with_psycopg,
};
pub use proxy::{Fault, FaultProxy};
pub use random::Random;
pub use server::{PgServer, PrivateServer};
pub use skip::skip_or_fail;
