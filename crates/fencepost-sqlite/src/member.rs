//! Membership of workers, and the one transaction per interval that renews it with all of a worker's slots.

use async_trait::async_trait;
use fencepost_core::{
    ConsumerPath, Heartbeat, MemberStatus, Members, Nonce, Pulse, Renewal, Result, SlotIndex, Timestamp, WorkerName,
};
use rusqlite::Connection;

use crate::consumer;
use crate::error::driver_error;
use crate::slot;
use crate::state::{Group, damaged, recorded};
use crate::store::SqliteStore;

#[async_trait]
impl Members for SqliteStore {
    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<Pulse> {
        let heartbeat = heartbeat.clone();
        self.transact("heartbeat", move |group| beat(group, &heartbeat)).await
    }

    async fn leave(&self, path: &ConsumerPath, member: &Nonce) -> Result<()> {
        let (path, member) = (path.clone(), member.clone());
        self.transact("leave", move |group| {
            let Ok(consumer) = consumer::load(group.connection(), &path) else { return Ok(()) };
            let gone = group
                .connection()
                .prepare_cached(include_str!("../sql/member/delete.sql"))
                .and_then(|mut statement| statement.execute((consumer.id, member.as_str())))
                .map_err(driver_error)?;
            if gone > 0 { consumer::touch(group, &path, consumer.id) } else { Ok(()) }
        })
        .await
    }

    async fn members(&self, path: &ConsumerPath) -> Result<Vec<MemberStatus>> {
        let (path, shared) = (path.clone(), self.shared().clone());
        self.read("members", move |snapshot| {
            let now = shared.clock.now(recorded(snapshot)?);
            live(snapshot, consumer::load(snapshot, &path)?.id, now)
        })
        .await
    }
}

fn beat(group: &mut Group<'_>, heartbeat: &Heartbeat) -> Result<Pulse> {
    let Heartbeat { path, member, worker, ttl, held } = heartbeat;
    let consumer = consumer::load(group.connection(), path)?;
    let held: Vec<Renewal> =
        held.iter().map(|(slot, epoch)| renew(group, &consumer, path, *slot, *epoch)).collect::<Result<_>>()?;

    let now = group.now()?;
    let connection = group.connection();
    let count = held.iter().filter(|renewal| **renewal == Renewal::Held).count();
    let expires_at = (now + ttl.get()).as_micros();
    connection
        .prepare_cached(include_str!("../sql/member/expire.sql"))
        .and_then(|mut statement| statement.execute((consumer.id, now.as_micros())))
        .map_err(driver_error)?;
    let known = connection
        .prepare_cached(include_str!("../sql/member/renew.sql"))
        .and_then(|mut statement| {
            statement.execute((consumer.id, member.as_str(), worker.as_str(), count as i64, expires_at))
        })
        .map_err(driver_error)?;
    if known == 0 {
        connection
            .prepare_cached(include_str!("../sql/member/insert.sql"))
            .and_then(|mut statement| {
                statement.execute((consumer.id, member.as_str(), worker.as_str(), count as i64, expires_at))
            })
            .map_err(driver_error)?;
        consumer::touch(group, path, consumer.id)?;
    }
    group.record(now)?;

    let members = live(group.connection(), consumer.id, now)?;
    let fewest = members.iter().map(|member| member.held).min().unwrap_or(0);
    Ok(Pulse { workers: members.len() as u32, fewest, slots: consumer.slots, held })
}

fn renew(
    group: &mut Group<'_>,
    consumer: &consumer::ConsumerRow,
    path: &ConsumerPath,
    slot: SlotIndex,
    epoch: fencepost_core::Epoch,
) -> Result<Renewal> {
    // A slot beyond the consumer's was one of a consumer that was dropped and made again with fewer.
    if slot.get() >= consumer.slots.get() {
        return Ok(Renewal::Lost);
    }
    slot::renew(group, consumer, path, slot, epoch)
}

/// The members of a consumer whose membership has not lapsed, by label.
pub(crate) fn live(connection: &Connection, consumer: i64, now: Timestamp) -> Result<Vec<MemberStatus>> {
    let rows: Vec<(String, u32, i64)> = connection
        .prepare_cached(include_str!("../sql/member/live.sql"))
        .and_then(|mut statement| {
            statement
                .query_map((consumer, now.as_micros()), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                .collect()
        })
        .map_err(driver_error)?;
    rows.into_iter()
        .map(|(worker, held, expires_at)| {
            let worker = WorkerName::new(worker).map_err(|cause| damaged("fencepost_member", cause))?;
            Ok(MemberStatus { worker, held, expires_at: Timestamp::from_micros(expires_at) })
        })
        .collect()
}
