//! Reading without leases: calls of `sql/functions/reader`.

use async_trait::async_trait;
use fencepost_core::{BatchSize, Checkpoint, Message, Page, Position, QueueName, Readers, Result, Start};
use tokio_postgres::types::Type;

use crate::batch::content;
use crate::consumer::start_of;
use crate::store::{PostgresStore, column};
use crate::time::At;

const READ: &str = r#"select position, id, key, kind, payload, headers::text, created_at, (next).h, fencepost._uncommitted(next)
    from fencepost._read($1, coalesce($2, to_char($3::timestamptz at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')), $4)"#;

#[async_trait]
impl Readers for PostgresStore {
    async fn read(&self, queue: &QueueName, from: Start, max: BatchSize) -> Result<Page> {
        let (name, max, (start, at)) = (queue.as_str(), max.get().cast_signed(), start_of(&from));
        let values: [_; 4] = [
            (&name as _, Type::TEXT),
            (&start as _, Type::TEXT),
            (&at as _, Type::TIMESTAMPTZ),
            (&max as _, Type::INT4),
        ];
        let rows = PostgresStore::read(self, "read", READ, &values).await?;
        let mut page = Page { messages: Vec::new(), next: Position::START.into() };
        for row in &rows {
            match column::<Option<i64>>(row, 1)? {
                Some(_) => page.messages.push(Message { created_at: column::<At>(row, 6)?.0, ..content(row, 0)? }),
                None => page.next = Checkpoint::from_storage(Position::from_storage(column(row, 7)?), column(row, 8)?),
            }
        }
        Ok(page)
    }
}
