//! Schedules: load the row under the write lock, let the contract's functions judge, store what they return.

use async_trait::async_trait;
use fencepost_core::refusal::no_schedule;
use fencepost_core::schedule::{FIRES_KEPT, Judged, StoredSchedule, due_limit, due_of, judge_put, judge_tick};
use fencepost_core::{
    Due, Fired, Key, Kind, LeaseToken, MessageId, NextFire, Put, Renewal, Result, Retry, ScheduleDefinition,
    ScheduleName, ScheduleStatus, Schedules, Tick, TickOutcome, Timestamp, Topic, Ttl,
};
use rusqlite::{Connection, Row};

use crate::error::driver_error;
use crate::lease;
use crate::queue::{append, append_all};
use crate::state::{Group, damaged};
use crate::statement::{all, execute, find};
use crate::store::SqliteStore;

#[async_trait]
impl Schedules for SqliteStore {
    async fn put_schedule(
        &self,
        definition: &ScheduleDefinition,
        next: Option<NextFire>,
        anchor_at: Timestamp,
    ) -> Result<Put> {
        definition.check_put(next, anchor_at).map_err(|error| error.during("put_schedule"))?;
        let definition = definition.clone();
        self.transact("put_schedule", move |group| {
            group.queue(&definition.queue)?;
            let present = load(group.connection(), &definition.name)?;
            let (put, stored) =
                judge_put(present.as_ref().map(|present| &present.status), &definition, next, anchor_at);
            if let Some(status) = stored {
                store(group.connection(), &status)?;
                changed(group)?;
            }
            Ok(put)
        })
        .await
    }

    async fn remove_schedule(&self, name: &ScheduleName) -> Result<bool> {
        let name = name.clone();
        self.transact("remove_schedule", move |group| {
            let was_there =
                execute(group.connection(), include_str!("../sql/schedule/remove.sql"), [name.as_str()])? > 0;
            if was_there {
                changed(group)?;
            }
            Ok(was_there)
        })
        .await
    }

    async fn pause_schedule(&self, name: &ScheduleName) -> Result<bool> {
        let name = name.clone();
        self.transact("pause_schedule", move |group| {
            let stored = present(group.connection(), &name)?;
            let Some(status) = stored.status.paused() else { return Ok(false) };
            go_on(group.connection(), &stored, &status, &[])?;
            Ok(true)
        })
        .await
    }

    async fn resume_schedule(&self, name: &ScheduleName, next: Option<NextFire>) -> Result<bool> {
        next.map_or(Ok(()), |next| next.check()).map_err(|error| error.during("resume_schedule"))?;
        let name = name.clone();
        self.transact("resume_schedule", move |group| {
            let stored = present(group.connection(), &name)?;
            let Some(status) = stored.status.resumed(next) else { return Ok(false) };
            go_on(group.connection(), &stored, &status, &[])?;
            changed(group)?;
            Ok(true)
        })
        .await
    }

    async fn schedule(&self, name: &ScheduleName) -> Result<Option<ScheduleStatus>> {
        let name = name.clone();
        self.read("schedule", move |snapshot| Ok(load(snapshot, &name)?.map(|stored| stored.status))).await
    }

    async fn schedule_status(&self) -> Result<Vec<ScheduleStatus>> {
        self.read("schedule_status", |snapshot| {
            let rows = all(snapshot, include_str!("../sql/schedule/list.sql"), [], stored)?;
            Ok(rows.into_iter().filter_map(told).collect())
        })
        .await
    }

    async fn schedule_history(&self, name: &ScheduleName) -> Result<Vec<Fired>> {
        let name = name.clone();
        self.read("schedule_history", move |snapshot| {
            let sql = include_str!("../sql/schedule/history.sql");
            let rows: Vec<(i64, i64, i64)> =
                all(snapshot, sql, [name.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            if rows.is_empty() {
                present(snapshot, &name)?;
            }
            rows.into_iter().rev().map(|(nominal_at, fired_at, message)| fired(nominal_at, fired_at, message)).collect()
        })
        .await
    }

    async fn run_schedule(&self, name: &ScheduleName) -> Result<Fired> {
        let name = name.clone();
        let ran = self.transact("run_schedule", move |group| {
            let now = group.now()?;
            let sql = include_str!("../sql/schedule/load.sql");
            let present = find(group.connection(), sql, [name.as_str()], stored)?.ok_or_else(|| no_schedule(&name))?;
            let (queue, message) = present.message(now).map_err(|cause| damaged("fencepost_schedule", cause))?;
            let message = append(group, &queue, &message)?;
            Ok(Fired { nominal_at: now, fired_at: now, message })
        });
        // As with a plain send there is nothing by which an unknown outcome could be asked for.
        ran.await
            .map_err(|error| if error.kind() == Kind::UnknownOutcome { error.retried(Retry::Never) } else { error })
    }

    async fn due_schedules(&self, leader: &LeaseToken, ttl: Option<Ttl>, max: u32) -> Result<Option<Due>> {
        let limit = due_limit(max).map_err(|error| error.during("due_schedules"))?;
        let leader = leader.clone();
        self.transact("due_schedules", move |group| match lease::renew(group, &leader, ttl)? {
            Renewal::Held => due(group, limit).map(Some),
            Renewal::Lost => Ok(None),
        })
        .await
    }

    async fn fire_schedules(&self, leader: &LeaseToken, ticks: &[Tick]) -> Result<Vec<TickOutcome>> {
        Tick::check(ticks).map_err(|error| error.during("fire_schedules"))?;
        let (leader, ticks) = (leader.clone(), ticks.to_vec());
        self.transact("fire_schedules", move |group| {
            lease::guard(group, &leader)?;
            ticks.iter().map(|tick| tick_one(group, tick)).collect()
        })
        .await
    }
}

/// Which schedules are due. What is not due yet ends the look, however many wait behind it.
fn due(group: &mut Group<'_>, limit: usize) -> Result<Due> {
    let now = group.now()?;
    let waiting = group.connection().prepare_cached(include_str!("../sql/schedule/waiting.sql"));
    let mut waiting = waiting.map_err(driver_error)?;
    let rows = waiting.query_map([limit as i64 + 1], stored).map_err(driver_error)?;
    due_of(now, limit, rows.filter_map(|row| row.map_err(driver_error).map(told).transpose()))
}

fn tick_one(group: &mut Group<'_>, tick: &Tick) -> Result<TickOutcome> {
    let Some(stored) = load(group.connection(), &tick.name)? else { return Ok(TickOutcome::Changed) };
    let status = &stored.status;
    let Judged::Fire(times) = judge_tick(Some(status), tick) else { return Ok(TickOutcome::Changed) };
    let ScheduleDefinition { queue, .. } = &status.definition;
    if !times.is_empty() && group.find_queue(queue)?.is_none() {
        go_on(group.connection(), &stored, &status.found_no_queue(tick, times.len()), &[])?;
        return Ok(TickOutcome::TargetGone);
    }
    let fired_at = group.now()?;
    let messages: Vec<_> = times.iter().map(|at| status.definition.message(*at)).collect::<Result<_>>()?;
    let ids = if times.is_empty() { Vec::new() } else { append_all(group, queue, &messages)? };
    let fired: Vec<Fired> =
        times.into_iter().zip(ids).map(|(nominal_at, message)| Fired { nominal_at, fired_at, message }).collect();
    go_on(group.connection(), &stored, &status.went_on(tick, &fired), &fired)?;
    group.record(fired_at)?;
    Ok(TickOutcome::Fired(fired))
}

/// Stores how a schedule stands, and what it has fired. Its definition stays as it is stored, whether or not it could be read.
fn go_on(connection: &Connection, stored: &Stored, status: &ScheduleStatus, fired: &[Fired]) -> Result<()> {
    let (Stored { id, fires, .. }, many) = (stored, fired.len() as i64);
    let (next, last) = (status.next, status.last);
    let values = (
        id,
        status.revision,
        next.map(|next| next.nominal_at.as_micros()),
        next.map(|next| next.due_at.as_micros()),
        last.map(|last| last.nominal_at.as_micros()),
        last.map(|last| last.fired_at.as_micros()),
        last.map(|last| last.message.get()),
        stored_count(status.missed),
        many,
        status.problem.as_deref(),
        status.is_paused,
    );
    execute(connection, include_str!("../sql/schedule/go_on.sql"), values)?;
    for Fired { nominal_at, fired_at, message } in &fired[fired.len().saturating_sub(FIRES_KEPT)..] {
        let values = (id, nominal_at.as_micros(), fired_at.as_micros(), message.get());
        execute(connection, include_str!("../sql/schedule/record.sql"), values)?;
    }
    // Once in so many fires: what is too many is not told, and is at most as much again.
    let kept = FIRES_KEPT as i64;
    if fires / kept < (fires + many) / kept {
        execute(connection, include_str!("../sql/schedule/trim.sql"), [id])?;
    }
    Ok(())
}

/// Wakes who waits for schedules, here and in other processes.
fn changed(group: &mut Group<'_>) -> Result<()> {
    execute(group.connection(), include_str!("../sql/schedule/changed.sql"), [])?;
    group.wake(Topic::Schedules);
    Ok(())
}

fn present(connection: &Connection, name: &ScheduleName) -> Result<Stored> {
    load(connection, name)?.ok_or_else(|| no_schedule(name))
}

/// A schedule, with what else its row has.
struct Stored {
    status: ScheduleStatus,
    id: i64,
    /// How many times it has fired.
    fires: i64,
}

fn load(connection: &Connection, name: &ScheduleName) -> Result<Option<Stored>> {
    let sql = include_str!("../sql/schedule/load.sql");
    let found = find(connection, sql, [name.as_str()], |row| Ok((stored(row)?, row.get(21)?, row.get(22)?)))?;
    let status = |stored: StoredSchedule| stored.status().map_err(|cause| damaged("fencepost_schedule", cause));
    found.map(|(stored, id, fires)| Ok(Stored { status: status(stored)?, id, fires })).transpose()
}

fn store(connection: &Connection, status: &ScheduleStatus) -> Result<()> {
    let ScheduleStatus { definition, next, last, .. } = status;
    let micros = |at: Option<Timestamp>| at.map(Timestamp::as_micros);
    let values = rusqlite::params![
        definition.name.as_str(),
        definition.spec,
        definition.zone,
        definition.queue.as_str(),
        definition.kind.as_str(),
        definition.key.as_ref().map(Key::as_str),
        definition.misfire.to_string(),
        definition.jitter.as_micros() as i64,
        micros(definition.from),
        micros(definition.until),
        status.revision,
        status.is_paused,
        status.anchor_at.as_micros(),
        micros(next.map(|next| next.nominal_at)),
        micros(next.map(|next| next.due_at)),
        micros(last.map(|last| last.nominal_at)),
        micros(last.map(|last| last.fired_at)),
        last.map(|last| last.message.get()),
        stored_count(status.missed),
        status.problem.as_deref(),
        definition.payload,
    ];
    execute(connection, include_str!("../sql/schedule/store.sql"), values)?;
    Ok(())
}

fn stored_count(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// What is stored of a schedule.
fn stored(row: &Row<'_>) -> rusqlite::Result<StoredSchedule> {
    let at = |index| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(index)?.map(Timestamp::from_micros));
    Ok(StoredSchedule {
        name: row.get(0)?,
        spec: row.get(1)?,
        zone: row.get(2)?,
        queue: row.get(3)?,
        kind: row.get(4)?,
        key: row.get(5)?,
        misfire: row.get(6)?,
        jitter: row.get(7)?,
        from: at(8)?,
        until: at(9)?,
        revision: row.get(10)?,
        is_paused: row.get(11)?,
        anchor_at: Timestamp::from_micros(row.get(12)?),
        next_at: at(13)?,
        due_at: at(14)?,
        last: at(15)?.zip(at(16)?),
        last_message: row.get(17)?,
        missed: row.get(18)?,
        problem: row.get(19)?,
        payload: row.get(20)?,
    })
}

/// How a schedule stands. One whose name no schedule can have could not be told of, and keeps no other from it.
fn told(stored: StoredSchedule) -> Option<ScheduleStatus> {
    stored.status().inspect_err(|error| tracing::warn!(%error, "a schedule was left out: it has no name")).ok()
}

fn fired(nominal_at: i64, fired_at: i64, message: i64) -> Result<Fired> {
    let message = MessageId::new(message).map_err(|cause| damaged("fencepost_fired", cause))?;
    Ok(Fired { nominal_at: Timestamp::from_micros(nominal_at), fired_at: Timestamp::from_micros(fired_at), message })
}
