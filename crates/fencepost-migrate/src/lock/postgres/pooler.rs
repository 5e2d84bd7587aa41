//! Whether what looks like one session is one. Behind a pooler in transaction mode each statement may run in another session: a lock that
//! one of them takes is nobody's, and the unlock finds nothing. It is looked for before a lock is asked for.

use std::time::Duration;

use fencepost_connect::told_process;
use fencepost_core::{Error, Kind, Result};
use tokio_postgres::Client;

use super::call::{bounded, column};
use super::source::{Session, Source};

/// So many sessions are looked at beside the lock's own. An idle pooler gives one connection the same session again and again; it cannot
/// while others are in the middle of a transaction.
const OTHERS: usize = 2;

/// How long a session may be silent while others are in a transaction. One that waits longer waits for theirs.
const SILENT: Duration = Duration::from_secs(3);

const PROCESS: &str = include_str!("../../../sql/lock/process.sql");

/// Refuses a session that is not what the client was told when it connected, as behind any pooler.
pub(super) async fn refuse_told_otherwise(client: &Client, process: i32) -> Result<()> {
    match told_process(client).await {
        Some(told) if told != process => Err(refused("process")),
        _ => Ok(()),
    }
}

/// Refuses a session that changes, or that others have too, while they are in a transaction.
pub(super) async fn refuse_shared(session: &Session, process: i32, source: &Source) -> Result<()> {
    let mut others = Vec::new();
    for _ in 0..OTHERS {
        others.extend(source.lend_another().await?);
    }
    if is_shared(session.client(), process, &mut others).await? {
        return Err(refused("shared"));
    }
    // What is not given back is closed.
    others.into_iter().for_each(Session::give_back);
    Ok(())
}

/// Whether `client`, which was answered by `process`, shares it with one of the others.
pub(super) async fn is_shared(client: &Client, process: i32, others: &mut [Session]) -> Result<bool> {
    let mut open = Vec::new();
    let mut seen = vec![process];
    for other in others {
        let Some(transaction) = in_time(other.client_mut().transaction()).await? else { return Ok(true) };
        let Some(answer) = in_time(transaction.query_typed(PROCESS, &[])).await? else { return Ok(true) };
        for row in &answer {
            let other: i32 = column(row, "pid")?;
            if seen.contains(&other) {
                return Ok(true);
            }
            seen.push(other);
        }
        open.push(transaction);
    }
    let Some(answer) = in_time(client.query_typed(PROCESS, &[])).await? else { return Ok(true) };
    for row in &answer {
        if column::<i32>(row, "pid")? != process {
            return Ok(true);
        }
    }
    for transaction in open {
        bounded(SILENT, transaction.rollback()).await?;
    }
    Ok(false)
}

async fn in_time<T>(call: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<Option<T>> {
    match bounded(SILENT, call).await {
        Err(error) if error.code() == "timeout" && error.fact("sqlstate").is_none() => Ok(None),
        answer => answer.map(Some),
    }
}

/// The error of a pooler, by what it was recognised by.
pub(super) fn refused(evidence: &'static str) -> Error {
    Error::new(
        Kind::Unsupported,
        "cannot take the lock: a pooler stands before the server, and a lock of a session is safe only where the session is one's own",
    )
    .coded("pooler")
    .with("evidence", evidence)
    .hinted(
        "connect to the server itself; or use `--lock lease`, which works through any pooler; or say `pooler=session` in the url where the \
         pooler is known to give each connection a session of its own",
    )
}
