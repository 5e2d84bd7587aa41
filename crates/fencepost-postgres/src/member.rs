//! Membership: calls of `sql/functions/member`.

use async_trait::async_trait;
use fencepost_core::{
    ConsumerPath, Heartbeat, MemberStatus, Members, Nonce, Pulse, Renewal, Result, SlotCount, Topic, WorkerName,
};
use tokio_postgres::types::Type;

use crate::error::damaged;
use crate::store::{PostgresStore, column, one};
use crate::time::At;

const HEARTBEAT: &str = "select workers, fewest, slot_count, held, is_new
    from fencepost._heartbeat($1, $2, $3, $4, $5 * interval '1 microsecond', $6, $7)";
const LEAVE: &str = "select fencepost._leave($1, $2, $3)";
const MEMBERS: &str = "select worker, held, expires_at from fencepost._members($1, $2)";

#[async_trait]
impl Members for PostgresStore {
    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Pulse> {
        let Heartbeat { path, member, worker, ttl, held } = heartbeat;
        let (queue, consumer) = (path.queue.as_str(), path.consumer.as_str());
        let (member, worker, ttl) = (member.as_str(), worker.as_str(), ttl.as_micros());
        let (slots, epochs): (Vec<i32>, Vec<i64>) =
            held.iter().map(|(slot, epoch)| (i32::from(slot.get()), epoch.get())).unzip();
        let values: [_; 7] = [
            (&queue as _, Type::TEXT),
            (&consumer as _, Type::TEXT),
            (&member as _, Type::TEXT),
            (&worker as _, Type::TEXT),
            (&ttl as _, Type::INT8),
            (&slots as _, Type::INT4_ARRAY),
            (&epochs as _, Type::INT8_ARRAY),
        ];
        let rows = self.write("heartbeat", HEARTBEAT, &values).await?;
        let row = one(&rows)?;
        let number = |index| Ok(column::<i32>(row, index)?.unsigned_abs());
        let renewed: Vec<bool> = column(row, 3)?;
        if column(row, 4)? {
            self.wake(&Topic::Slots(path.clone()));
        }
        Ok(Pulse {
            workers: number(0)?,
            fewest: number(1)?,
            slots: SlotCount::new(i64::from(number(2)?)).map_err(|cause| damaged("consumer", cause))?,
            held: renewed.into_iter().map(|held| if held { Renewal::Held } else { Renewal::Lost }).collect(),
        })
    }

    async fn leave(&self, path: &ConsumerPath, member: &Nonce) -> Result<()> {
        let (queue, consumer, member) = (path.queue.as_str(), path.consumer.as_str(), member.as_str());
        let values: [_; 3] = [(&queue as _, Type::TEXT), (&consumer as _, Type::TEXT), (&member as _, Type::TEXT)];
        let rows = self.write("leave", LEAVE, &values).await?;
        if column(one(&rows)?, 0)? {
            self.wake(&Topic::Slots(path.clone()));
        }
        Ok(())
    }

    async fn members(&self, path: &ConsumerPath) -> Result<Vec<MemberStatus>> {
        let (queue, consumer) = (path.queue.as_str(), path.consumer.as_str());
        let values: [_; 2] = [(&queue as _, Type::TEXT), (&consumer as _, Type::TEXT)];
        let rows = self.read("members", MEMBERS, &values).await?;
        let decode = |row| {
            let worker = WorkerName::new(column::<String>(row, 0)?).map_err(|cause| damaged("member", cause))?;
            Ok(MemberStatus {
                worker,
                held: column::<i32>(row, 1)?.unsigned_abs(),
                expires_at: column::<At>(row, 2)?.0,
            })
        };
        rows.iter().map(decode).collect()
    }
}
