//! Giving the lock back. It runs on a task of its own, within a bound, so that nobody can drop it half-way. Only a session of which the server
//! says that it had the lock and now has not, and that is in no transaction, goes back to its pool.

use std::sync::Arc;
use std::time::Duration;

use fencepost_core::{Error, Kind, Result};
use tokio::time::timeout;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::LockKey;
use super::call::{self, ANSWER, bounded, column};
use super::held::Held;

/// How long a release may take, and with it who has the session on loan.
const BOUND: Duration = Duration::from_secs(15);

/// Releases the lock, or ends its session.
pub(super) async fn release(held: Arc<Held>, key: LockKey) -> Result<bool> {
    let done = timeout(BOUND, async {
        let (Some(armed), was_lent) = held.end().await else { return Ok::<_, Error>(false) };
        if armed.client().is_closed() {
            return Ok(false);
        }
        // What fails here drops the session, which closes it.
        unlock(armed.client(), key).await?;
        if !was_lent {
            armed.give_back().await;
        }
        Ok(true)
    });
    match done.await {
        Ok(Err(error)) => Err(error.attempting("cannot release the lock, and closed its session")),
        Ok(released) => released,
        Err(_) => Err(Error::new(
            Kind::Unavailable,
            "cannot release the lock: its session is in use, and is closed after that",
        )
        .coded("timeout")),
    }
}

async fn unlock(client: &Client, key: LockKey) -> Result<()> {
    // In a transaction, time stands still since its beginning. One that was aborted refuses the question.
    let sql = include_str!("../../../sql/lock/is_idle.sql");
    let answer = bounded(ANSWER, client.simple_query(sql)).await?;
    let is_idle = answer.iter().any(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0) == Some("t"),
        _ => false,
    });
    if !is_idle {
        return Err(Error::new(Kind::Conflict, "a transaction was left open on it").coded("transaction_open"));
    }
    let row = call::row(client, include_str!("../../../sql/lock/unlock.sql"), &[(&key.as_i64(), Type::INT8)]).await?;
    if !column(&row, "was_held")? {
        return Err(Error::new(Kind::Conflict, "the server says that it did not hold it").coded("lock_not_held"));
    }
    Ok(())
}
