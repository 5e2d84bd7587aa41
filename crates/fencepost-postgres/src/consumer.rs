//! Consumers: calls of the functions in `sql/functions/consumer`, and what their answers mean.

use std::time::Duration;

use async_trait::async_trait;
use fencepost_core::{
    ConsumerPath, ConsumerStatus, Consumers, CreateConsumer, Created, Dropped, FailurePolicy, QueueName, Result,
    SlotCount, SlotStatus, Slots, Start, Topic,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::damaged;
use crate::queue::micros;
use crate::store::{PostgresStore, column, one};
use crate::time::At;

const CREATE: &str = r#"select fencepost.create_consumer($1, $2, slots => $3,
    start => coalesce($4, to_char($5::timestamptz at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')), on_failure => $6,
    max_attempts => $7, max_crashes => $8, backoff => $9 * interval '1 microsecond')"#;
const DROP: &str = "select fencepost.drop_consumer($1, $2, $3)";
const STATUS: &str = "select queue, consumer, slots, on_failure, max_attempts, max_crashes,
    (extract(epoch from backoff) * 1000000)::bigint, lag, retrying, parked, dead, workers, first_at from fencepost._consumer_report($1, $2)";
const FIND_QUEUE: &str = "select fencepost._queue_number($1)";

#[async_trait]
impl Consumers for PostgresStore {
    async fn create_consumer(&self, request: &CreateConsumer) -> Result<Created> {
        let CreateConsumer { path, slots, start, policy } = request;
        let (queue, consumer, slots) = (path.queue.as_str(), path.consumer.as_str(), i32::from(slots.get()));
        let (start, at) = start_of(start);
        let (on_failure, backoff) = (policy.get_on_failure().as_str(), micros(policy.get_backoff()));
        let (attempts, crashes) = (policy.get_max_attempts().cast_signed(), policy.get_max_crashes().cast_signed());
        let values: [_; 9] = [
            (&queue as _, Type::TEXT),
            (&consumer as _, Type::TEXT),
            (&slots as _, Type::INT4),
            (&start as _, Type::TEXT),
            (&at as _, Type::TIMESTAMPTZ),
            (&on_failure as _, Type::TEXT),
            (&attempts as _, Type::INT4),
            (&crashes as _, Type::INT4),
            (&backoff as _, Type::INT8),
        ];
        let rows = self.write("create_consumer", CREATE, &values).await?;
        Ok(if column(one(&rows)?, 0)? { Created::Created } else { Created::Existed })
    }

    async fn drop_consumer(&self, path: &ConsumerPath, force: bool) -> Result<Dropped> {
        let (queue, consumer) = (path.queue.as_str(), path.consumer.as_str());
        let values: [_; 3] = [(&queue as _, Type::TEXT), (&consumer as _, Type::TEXT), (&force as _, Type::BOOL)];
        let rows = self.write("drop_consumer", DROP, &values).await?;
        if !column::<bool>(one(&rows)?, 0)? {
            return Ok(Dropped::Absent);
        }
        self.wake(&Topic::Slots(path.clone()));
        Ok(Dropped::Dropped)
    }

    async fn consumer_status(&self, queue: Option<&QueueName>) -> Result<Vec<ConsumerStatus>> {
        self.find_queue("consumer_status", queue).await?;
        let name = queue.map(QueueName::as_str);
        let rows = self.read("consumer_status", STATUS, &[(&name, Type::TEXT), (&true, Type::BOOL)]).await?;
        rows.iter().map(status).collect()
    }
}

impl PostgresStore {
    /// How every consumer and every slot stands: what [`Consumers::consumer_status`] and [`Slots::slot_status`] tell, counted once.
    ///
    /// # Errors
    /// `unavailable`.
    pub async fn overview(&self) -> Result<(Vec<ConsumerStatus>, Vec<SlotStatus>)> {
        let everywhere: (Option<&str>, bool) = (None, false);
        let values: [_; 2] = [(&everywhere.0 as _, Type::TEXT), (&everywhere.1 as _, Type::BOOL)];
        let rows = self.read("consumer_status", STATUS, &values).await?;
        let mut consumers: Vec<ConsumerStatus> = rows.iter().map(status).collect::<Result<_>>()?;
        let slots = self.slot_status(None).await?;
        // Both are in the order of their names.
        let mut rest = &*slots;
        for consumer in &mut consumers {
            rest = &rest[rest.iter().take_while(|slot| slot.path < consumer.path).count()..];
            for slot in rest.iter().take_while(|slot| slot.path == consumer.path) {
                consumer.lag += slot.lag;
                consumer.retrying += slot.retrying;
                consumer.parked += slot.parked;
                consumer.first_at = [consumer.first_at, slot.first_at].into_iter().flatten().min();
            }
        }
        Ok((consumers, slots))
    }

    /// Refuses the name of a queue that does not exist.
    pub(crate) async fn find_queue(&self, operation: &'static str, queue: Option<&QueueName>) -> Result<()> {
        let Some(queue) = queue else { return Ok(()) };
        self.read(operation, FIND_QUEUE, &[(&queue.as_str(), Type::TEXT)]).await.map(drop)
    }
}

/// A start as the functions take it: a text, or an instant.
pub(crate) fn start_of(start: &Start) -> (Option<String>, Option<At>) {
    match start {
        Start::Earliest => (Some("earliest".to_owned()), None),
        Start::Latest => (Some("latest".to_owned()), None),
        Start::At(at) => (None, Some(At(*at))),
        Start::AfterId(id) => (Some(format!("id:{id}")), None),
        Start::After(checkpoint) => (Some(checkpoint.to_string()), None),
    }
}

/// A consumer's name out of two columns.
pub(crate) fn path_of(row: &Row) -> Result<ConsumerPath> {
    ConsumerPath::new(column::<String>(row, 0)?, column::<String>(row, 1)?).map_err(|cause| damaged("consumer", cause))
}

fn status(row: &Row) -> Result<ConsumerStatus> {
    let (slots, on_failure): (i32, String) = (column(row, 2)?, column(row, 3)?);
    let (attempts, crashes, backoff): (i32, i32, i64) = (column(row, 4)?, column(row, 5)?, column(row, 6)?);
    let count = |index| Ok(column::<i64>(row, index)?.unsigned_abs());
    let policy = || {
        FailurePolicy::default()
            .on_failure(on_failure.parse()?)
            .max_attempts(i64::from(attempts))?
            .max_crashes(i64::from(crashes))?
            .backoff(Duration::from_micros(backoff.unsigned_abs()))
    };
    Ok(ConsumerStatus {
        path: path_of(row)?,
        slots: SlotCount::new(i64::from(slots)).map_err(|cause| damaged("consumer", cause))?,
        policy: policy().map_err(|cause| damaged("consumer", cause))?,
        lag: count(7)?,
        retrying: count(8)?,
        parked: count(9)?,
        first_at: column::<Option<At>>(row, 12)?.map(|At(at)| at),
        dead: count(10)?,
        workers: u32::try_from(count(11)?).unwrap_or(u32::MAX),
    })
}
