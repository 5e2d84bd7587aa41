//! A service that begins when the database is ready for it: `cargo run --example start_up -- postgres://app@localhost/shop`.
//!
//! It carries its migrations and runs none of them. Whoever does (`fencepost migrate up`, a job of the release) does so before or
//! meanwhile. A statement that failed ends the wait, since waiting would not help.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use fencepost::migrate::sql::Dialect;
use fencepost::migrate::{LockMode, Migrations, Migrator, PostgresMigrator, Readiness};

/// With `include_str!` where they are files.
const CARRIED: [(&str, &str); 1] =
    [("0001_customers.sql", "create table customer (id bigint primary key, name text not null);")];

#[tokio::main]
#[expect(clippy::print_stdout, reason = "it is a program")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("name the database: postgres://USER@HOST/DATABASE")?;
    let migrations = Migrations::of(CARRIED, Dialect::Postgres)?;
    let migrator = Arc::new(PostgresMigrator::at(&url, Migrator::new(migrations), LockMode::Advisory)?);

    println!("waiting for the database: it is {}", migrator.ready().await?.as_str());
    match migrator.wait(Duration::from_secs(300)).await? {
        Readiness::Ready { .. } => {}
        other => return Err(format!("the database is not ready: {}", other.as_str()).into()),
    }

    let routes = Router::new().route("/", get(|| async { "hello" })).route("/started", get(started));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on {}", listener.local_addr()?);
    Ok(axum::serve(listener, routes.with_state(migrator)).await?)
}

/// For a start-up probe. Not for one of readiness: while the next version migrates, this one would be told `ahead`.
async fn started(State(migrator): State<Arc<PostgresMigrator>>) -> (StatusCode, &'static str) {
    match migrator.ready().await {
        Ok(Readiness::Ready { .. }) => (StatusCode::OK, "ready"),
        Ok(other) => (StatusCode::SERVICE_UNAVAILABLE, other.as_str()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.code()),
    }
}
