//! Dead letters: calls of the functions in `sql/functions/dead`.

use async_trait::async_trait;
use fencepost_core::{
    BatchSize, ConsumerPath, DeadCause, DeadLetter, DeadLetters, Error, FailureText, Kind, Message, MessageId,
    QueueName, Result, Topic,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::batch::content;
use crate::consumer::path_of;
use crate::error::damaged;
use crate::slot::count;
use crate::store::{PostgresStore, column};
use crate::time::At;

const LIST: &str =
    "select position, id, key, kind, payload, headers::text, created_at, attempts, cause, reason, died_at
    from fencepost._dead_letters($1, $2, $3, $4)";
const COUNTS: &str = "select queue, consumer, dead from fencepost._dead_counts($1)";
const REPLAY: &str = "select fencepost.dead_replay($1, $2, $3)";
const PURGE: &str = "select fencepost.dead_purge($1, $2, $3)";

#[async_trait]
impl DeadLetters for PostgresStore {
    async fn dead_letters(
        &self,
        path: &ConsumerPath,
        after: Option<MessageId>,
        max: BatchSize,
    ) -> Result<Vec<DeadLetter>> {
        let (queue, consumer) = (path.queue.as_str(), path.consumer.as_str());
        let (after, max) = (after.map(MessageId::get), i64::from(max.get()));
        let values: [_; 4] = [
            (&queue as _, Type::TEXT),
            (&consumer as _, Type::TEXT),
            (&after as _, Type::INT8),
            (&max as _, Type::INT8),
        ];
        let rows = self.read("dead_letters", LIST, &values).await?;
        rows.iter().map(|row| letter(path, row)).collect()
    }

    async fn dead_counts(&self, queue: Option<&QueueName>) -> Result<Vec<(ConsumerPath, u64)>> {
        self.find_queue("dead_counts", queue).await?;
        let name = queue.map(QueueName::as_str);
        let rows = self.read("dead_counts", COUNTS, &[(&name, Type::TEXT)]).await?;
        rows.iter().map(|row| Ok((path_of(row)?, column::<i64>(row, 2)?.unsigned_abs()))).collect()
    }

    async fn replay_dead_letters(&self, path: &ConsumerPath, ids: Option<&[MessageId]>) -> Result<u64> {
        let replayed = self.decide("replay_dead_letters", REPLAY, path, ids).await?;
        if replayed > 0 {
            self.wake(&Topic::Messages(path.queue.clone()));
        }
        Ok(replayed)
    }

    async fn purge_dead_letters(&self, path: &ConsumerPath, ids: Option<&[MessageId]>) -> Result<u64> {
        self.decide("purge_dead_letters", PURGE, path, ids).await
    }
}

impl PostgresStore {
    async fn decide(
        &self,
        operation: &'static str,
        sql: &'static str,
        path: &ConsumerPath,
        ids: Option<&[MessageId]>,
    ) -> Result<u64> {
        let (queue, consumer) = (path.queue.as_str(), path.consumer.as_str());
        let ids: Option<Vec<i64>> = ids.map(|ids| ids.iter().map(|id| id.get()).collect());
        let values: [_; 3] = [(&queue as _, Type::TEXT), (&consumer as _, Type::TEXT), (&ids as _, Type::INT8_ARRAY)];
        count(&self.write(operation, sql, &values).await?).map(u64::from)
    }
}

fn letter(path: &ConsumerPath, row: &Row) -> Result<DeadLetter> {
    let Message { id, position, key, kind, payload, headers, .. } = content(row, 0)?;
    let (cause, reason) = (column::<String>(row, 8)?, column::<Option<String>>(row, 9)?);
    let known = DeadCause::ALL.into_iter().find(|known| known.as_str() == cause);
    let unknown = || damaged("dead", Error::new(Kind::Corrupt, format!("no cause is called `{cause}`")));
    Ok(DeadLetter {
        path: path.clone(),
        id,
        position,
        key,
        kind,
        payload,
        headers,
        created_at: column::<At>(row, 6)?.0,
        attempts: column::<i32>(row, 7)?.unsigned_abs(),
        cause: known.ok_or_else(unknown)?,
        reason: reason.map(FailureText::new).transpose().map_err(|cause| damaged("dead", cause))?,
        died_at: column::<At>(row, 10)?.0,
    })
}
