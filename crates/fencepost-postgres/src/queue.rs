//! Queues and sending: calls of the functions in `sql/functions/queue`, and what their answers mean.

use std::time::Duration;

use async_trait::async_trait;
use fencepost_core::{
    Created, Dropped, Error, IdempotencyKey, Key, Kind, MessageId, MessageKind, Moment, NewMessage, OnceTtl,
    Partitions, QueueName, QueueStatus, Queues, Result, Retention, SentOnce, Topic,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connection::Parameter;
use crate::error::damaged;
use crate::numbered::OfQueue;
use crate::store::{PostgresStore, column, one};
use crate::time::At;

const CREATE: &str = "select fencepost.create_queue($1, $2)";
const DROP: &str = "select fencepost.drop_queue($1, $2)";
const SEND: OfQueue = OfQueue {
    by_number: "select {q}_send($1, $2, $3, $4::jsonb)",
    by_name: "select fencepost.send($5, $1, $2, $3, $4::jsonb)",
};
const SEND_ALL: OfQueue = OfQueue {
    by_number: "select {q}_send_many($1, $2, $3, $4, $5, $6, $7, $8)",
    by_name: "select fencepost._send_many($9, $1, $2, $3, $4, $5, $6, $7, $8)",
};
pub(crate) const SEND_MANY: &str = "select fencepost._send_many($1, $2, $3, $4, $5, $6, $7, $8, $9)";
pub(crate) const SEND_ONCE: &str =
    "select * from fencepost._send_one_once($1, $2, $3, $4, $5, $6, $7 * interval '1 microsecond', $8, $9, $10, $11)";
const PAUSE: &str = "select fencepost.pause_queue($1)";
const RESUME: &str = "select fencepost.resume_queue($1)";
const RETAIN: &str =
    "select fencepost.set_retention($1, $2 * interval '1 microsecond', $3 * interval '1 microsecond', $4)";
const STATUS: &str = "select queue, partitions, consumers, paused, (extract(epoch from retain_for) * 1000000)::bigint,
    (extract(epoch from retain_unread) * 1000000)::bigint, retain_unread_bytes, delayed, stored, oldest_at
    from fencepost._queue_status()";
const MAINTAIN: &str = "select fencepost.maintain($1)";

/// How many bytes of payloads one round trip carries at most, unless one message is larger.
const ROUND_TRIP: usize = 8 << 20;

#[async_trait]
impl Queues for PostgresStore {
    async fn create_queue(&self, queue: &QueueName, partitions: Partitions) -> Result<Created> {
        let (name, partitions) = (queue.as_str(), i32::from(partitions.get()));
        let values: [_; 2] = [(&name as _, Type::TEXT), (&partitions as _, Type::INT4)];
        let rows = self.write("create_queue", CREATE, &values).await?;
        Ok(if column(one(&rows)?, 0)? { Created::Created } else { Created::Existed })
    }

    async fn drop_queue(&self, queue: &QueueName, force: bool) -> Result<Dropped> {
        let name = queue.as_str();
        let values: [_; 2] = [(&name as _, Type::TEXT), (&force as _, Type::BOOL)];
        let rows = self.write("drop_queue", DROP, &values).await?;
        Ok(if column(one(&rows)?, 0)? { Dropped::Dropped } else { Dropped::Absent })
    }

    async fn send(&self, queue: &QueueName, message: NewMessage) -> Result<MessageId> {
        let id = match Plain::of(&message) {
            Some(plain) => {
                let rows = self.write_to("send", queue, SEND, &plain.values()).await?;
                identity(one(&rows)?)?
            }
            None => {
                let columns = Columns::of(queue, std::slice::from_ref(&message));
                let rows = self.write_to("send", queue, SEND_ALL, &columns.values()[1..]).await?;
                *identities(one(&rows)?)?.first().ok_or_else(no_id)?
            }
        };
        self.wake(&Topic::Messages(queue.clone()));
        Ok(id)
    }

    async fn send_batch(&self, queue: &QueueName, messages: Vec<NewMessage>) -> Result<Vec<MessageId>> {
        let parts: Vec<Columns<'_>> = round_trips(&messages).into_iter().map(|part| Columns::of(queue, part)).collect();
        if let [part] = parts.as_slice() {
            let rows = self.write_to("send_batch", queue, SEND_ALL, &part.values()[1..]).await?;
            self.wake(&Topic::Messages(queue.clone()));
            return identities(one(&rows)?);
        }
        let mut ids = Vec::with_capacity(messages.len());
        let values: Vec<_> = parts.iter().map(Columns::values).collect();
        let calls: Vec<(&'static str, &[Parameter<'_>])> =
            values.iter().map(|values| (SEND_MANY, &values[..])).collect();
        for rows in self.write_all("send_batch", &calls).await? {
            ids.extend(identities(one(&rows)?)?);
        }
        if !ids.is_empty() {
            self.wake(&Topic::Messages(queue.clone()));
        }
        Ok(ids)
    }

    async fn send_once(
        &self,
        queue: &QueueName,
        message: NewMessage,
        key: &IdempotencyKey,
        ttl: OnceTtl,
    ) -> Result<SentOnce> {
        let once = Once::of(queue, &message, key, ttl);
        let rows = self.write("send_once", SEND_ONCE, &once.values()).await?;
        let sent = sent_once(one(&rows)?)?;
        if !sent.deduplicated {
            self.wake(&Topic::Messages(queue.clone()));
        }
        Ok(sent)
    }

    async fn pause_queue(&self, queue: &QueueName) -> Result<bool> {
        self.set_paused("pause_queue", PAUSE, queue).await
    }

    async fn resume_queue(&self, queue: &QueueName) -> Result<bool> {
        self.set_paused("resume_queue", RESUME, queue).await
    }

    async fn set_retention(&self, queue: &QueueName, retention: Retention) -> Result<()> {
        retention.check().map_err(|error| error.during("set_retention"))?;
        let (name, consumed, unread) = (queue.as_str(), micros(retention.consumed), micros(retention.unread));
        let bytes = i64::try_from(retention.unread_bytes).unwrap_or(i64::MAX);
        let values: [_; 4] = [
            (&name as _, Type::TEXT),
            (&consumed as _, Type::INT8),
            (&unread as _, Type::INT8),
            (&bytes as _, Type::INT8),
        ];
        self.write("set_retention", RETAIN, &values).await.map(drop)
    }

    async fn queue_status(&self) -> Result<Vec<QueueStatus>> {
        let rows = self.read("queue_status", STATUS, &[]).await?;
        rows.iter().map(status).collect()
    }

    async fn maintain(&self, queue: Option<&QueueName>) -> Result<u64> {
        let name = queue.map(QueueName::as_str);
        let rows = self.write("maintain", MAINTAIN, &[(&name, Type::TEXT)]).await?;
        let steps = column::<i64>(one(&rows)?, 0)?.unsigned_abs();
        if steps > 0
            && let Some(queue) = queue
        {
            self.wake(&Topic::Messages(queue.clone()));
        }
        Ok(steps)
    }
}

impl PostgresStore {
    async fn set_paused(&self, operation: &'static str, sql: &'static str, queue: &QueueName) -> Result<bool> {
        let rows = self.write(operation, sql, &[(&queue.as_str(), Type::TEXT)]).await?;
        let changed = column(one(&rows)?, 0)?;
        if changed {
            self.wake(&Topic::Messages(queue.clone()));
        }
        Ok(changed)
    }
}

/// A length of time as the functions take it.
pub(crate) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Cuts messages into what goes in one round trip each.
fn round_trips(messages: &[NewMessage]) -> Vec<&[NewMessage]> {
    let (mut parts, mut begin, mut bytes) = (Vec::new(), 0, 0);
    for (index, message) in messages.iter().enumerate() {
        let size = message.payload().len();
        if index > begin && bytes + size > ROUND_TRIP {
            parts.push(&messages[begin..index]);
            (begin, bytes) = (index, 0);
        }
        bytes += size;
    }
    if begin < messages.len() {
        parts.push(&messages[begin..]);
    }
    parts
}

/// A message without a delay or an end, as the shortest call takes it.
struct Plain<'m> {
    payload: &'m [u8],
    key: Option<&'m str>,
    kind: &'m str,
    headers: String,
}

impl<'m> Plain<'m> {
    fn of(message: &'m NewMessage) -> Option<Self> {
        (message.get_due().is_none() && message.get_expires().is_none()).then(|| Self::content(message))
    }

    /// A message whatever its delay and end.
    fn content(message: &'m NewMessage) -> Self {
        Self {
            payload: message.payload(),
            key: message.get_key().map(Key::as_str),
            kind: message.get_kind().as_str(),
            headers: headers(message),
        }
    }

    fn values(&self) -> [Parameter<'_>; 4] {
        [(&self.payload, Type::BYTEA), (&self.key, Type::TEXT), (&self.kind, Type::TEXT), (&self.headers, Type::TEXT)]
    }
}

/// Messages as arrays, one a column.
pub(crate) struct Columns<'m> {
    queue: &'m str,
    payloads: Vec<&'m [u8]>,
    keys: Vec<Option<&'m str>>,
    kinds: Vec<&'m str>,
    headers: Vec<String>,
    due_in: Vec<Option<i64>>,
    due_at: Vec<Option<At>>,
    expires_in: Vec<Option<i64>>,
    expires_at: Vec<Option<At>>,
}

impl<'m> Columns<'m> {
    pub(crate) fn of(queue: &'m QueueName, messages: &'m [NewMessage]) -> Self {
        let dues = messages.iter().map(|message| parts(message.get_due()));
        let ends = messages.iter().map(|message| parts(message.get_expires()));
        let ((due_in, due_at), (expires_in, expires_at)) = (dues.unzip(), ends.unzip());
        Self {
            queue: queue.as_str(),
            payloads: messages.iter().map(NewMessage::payload).collect(),
            keys: messages.iter().map(|message| message.get_key().map(Key::as_str)).collect(),
            kinds: unless(
                messages,
                |message| *message.get_kind() == MessageKind::default(),
                |message| message.get_kind().as_str(),
            ),
            headers: unless(messages, |message| message.headers().is_empty(), headers),
            due_in: some(due_in),
            due_at: some(due_at),
            expires_in: some(expires_in),
            expires_at: some(expires_at),
        }
    }

    pub(crate) fn values(&self) -> [Parameter<'_>; 9] {
        [
            (&self.queue, Type::TEXT),
            (&self.payloads, Type::BYTEA_ARRAY),
            (&self.keys, Type::TEXT_ARRAY),
            (&self.kinds, Type::TEXT_ARRAY),
            (&self.headers, Type::TEXT_ARRAY),
            (&self.due_in, Type::INT8_ARRAY),
            (&self.due_at, Type::TIMESTAMPTZ_ARRAY),
            (&self.expires_in, Type::INT8_ARRAY),
            (&self.expires_at, Type::TIMESTAMPTZ_ARRAY),
        ]
    }
}

/// A column, or an empty one when all messages are as most are.
fn unless<'m, T>(
    messages: &'m [NewMessage],
    is_usual: fn(&NewMessage) -> bool,
    value: fn(&'m NewMessage) -> T,
) -> Vec<T> {
    if messages.iter().all(is_usual) { Vec::new() } else { messages.iter().map(value).collect() }
}

/// A column that says nothing of any message is empty.
fn some<T>(column: Vec<Option<T>>) -> Vec<Option<T>> {
    if column.iter().all(Option::is_none) { Vec::new() } else { column }
}

fn parts(moment: Option<Moment>) -> (Option<i64>, Option<At>) {
    match moment {
        None => (None, None),
        Some(Moment::After(time)) => (Some(micros(time)), None),
        Some(Moment::At(at)) => (None, Some(At(at))),
    }
}

fn headers(message: &NewMessage) -> String {
    serde_json::to_string(message.headers()).expect("a map of texts is JSON")
}

/// An idempotent send.
pub(crate) struct Once<'m> {
    queue: &'m str,
    content: Plain<'m>,
    key: &'m str,
    ttl: i64,
    due: (Option<i64>, Option<At>),
    expires: (Option<i64>, Option<At>),
}

impl<'m> Once<'m> {
    pub(crate) fn of(queue: &'m QueueName, message: &'m NewMessage, key: &'m IdempotencyKey, ttl: OnceTtl) -> Self {
        Self {
            queue: queue.as_str(),
            content: Plain::content(message),
            key: key.as_str(),
            ttl: micros(ttl.get()),
            due: parts(message.get_due()),
            expires: parts(message.get_expires()),
        }
    }

    pub(crate) fn values(&self) -> [Parameter<'_>; 11] {
        [
            (&self.queue, Type::TEXT),
            (&self.content.payload, Type::BYTEA),
            (&self.content.key, Type::TEXT),
            (&self.content.kind, Type::TEXT),
            (&self.content.headers, Type::TEXT),
            (&self.key, Type::TEXT),
            (&self.ttl, Type::INT8),
            (&self.due.0, Type::INT8),
            (&self.due.1, Type::TIMESTAMPTZ),
            (&self.expires.0, Type::INT8),
            (&self.expires.1, Type::TIMESTAMPTZ),
        ]
    }
}

pub(crate) fn identity(row: &Row) -> Result<MessageId> {
    MessageId::new(column(row, 0)?).map_err(|cause| damaged("send", cause))
}

pub(crate) fn identities(row: &Row) -> Result<Vec<MessageId>> {
    let ids: Vec<i64> = column(row, 0)?;
    ids.into_iter().map(|id| MessageId::new(id).map_err(|cause| damaged("send", cause))).collect()
}

pub(crate) fn sent_once(row: &Row) -> Result<SentOnce> {
    Ok(SentOnce { id: identity(row)?, deduplicated: column(row, 1)? })
}

/// The error of a send that was answered with nothing.
pub(crate) fn no_id() -> Error {
    Error::new(Kind::Internal, "the server answered no id")
}

fn status(row: &Row) -> Result<QueueStatus> {
    let time = |index| Ok(Duration::from_micros(column::<i64>(row, index)?.unsigned_abs()));
    let count = |index| Ok(column::<i64>(row, index)?.unsigned_abs());
    let (queue, partitions) = (column::<String>(row, 0)?, column::<i32>(row, 1)?);
    Ok(QueueStatus {
        queue: QueueName::new(queue).map_err(|cause| damaged("queue", cause))?,
        partitions: Partitions::new(i64::from(partitions)).map_err(|cause| damaged("queue", cause))?,
        consumers: count(2)?,
        paused: column(row, 3)?,
        retention: Retention { consumed: time(4)?, unread: time(5)?, unread_bytes: count(6)? },
        delayed: count(7)?,
        stored: count(8)?,
        oldest_at: column::<Option<At>>(row, 9)?.map(|at| at.0),
    })
}
