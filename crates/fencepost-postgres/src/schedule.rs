//! Schedules: calls of the functions in `sql/functions/schedule`, and what their answers mean.

use std::sync::Mutex;
use std::time::Instant;

use async_trait::async_trait;
use fencepost_core::schedule::{LOOK_BYTES, StoredSchedule, due_limit, nominal_time};
use fencepost_core::{
    Due, Error, Fired, Key, Kind, LeaseToken, MessageId, NextFire, Put, Result, Retry, ScheduleDefinition,
    ScheduleName, ScheduleStatus, Schedules, Tick, TickOutcome, Timestamp, Topic, Ttl,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::damaged;
use crate::queue::micros;
use crate::store::{PostgresStore, column, one};
use crate::time::At;

const PUT: &str = "select fencepost._schedule_put($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
const REMOVE: &str = "select fencepost._schedule_remove($1)";
const SET_PAUSED: &str = "select fencepost._schedule_set_paused($1, $2, $3, $4)";
const STATUS: &str = "select * from fencepost._schedules($1)";
const HISTORY: &str = "select * from fencepost._schedule_history($1)";
const RUN: &str = "select * from fencepost._schedule_run($1)";
const DUE: &str = "select (d.due).*, d.moment, d.later
    from fencepost._schedules_lead($1, $2, $3 * interval '1 microsecond', $4, $5, $6, $7) d";
const FIRE: &str = "select * from fencepost._schedules_fire($1, $2, $3, $4, $5, $6, $7, $8, $9)";

/// How many columns a schedule has, after which come those of a look.
const COLUMNS: usize = 23;

#[async_trait]
impl Schedules for PostgresStore {
    async fn put_schedule(
        &self,
        definition: &ScheduleDefinition,
        next: Option<NextFire>,
        anchor_at: Timestamp,
    ) -> Result<Put> {
        definition.check_put(next, anchor_at).map_err(|error| error.during("put_schedule"))?;
        let ScheduleDefinition { name, spec, zone, queue, kind, key, payload, misfire, jitter, from, until } =
            definition;
        let (name, queue, kind, key) = (name.as_str(), queue.as_str(), kind.as_str(), key.as_ref().map(Key::as_str));
        let (misfire, jitter) = (misfire.to_string(), micros(*jitter));
        let ((next_at, due_at), (from, until)) = (instants(next), (from.map(At), until.map(At)));
        let values: [_; 14] = [
            (&name as _, Type::TEXT),
            (spec as _, Type::TEXT),
            (zone as _, Type::TEXT),
            (&queue as _, Type::TEXT),
            (&kind as _, Type::TEXT),
            (&key as _, Type::TEXT),
            (payload as _, Type::BYTEA),
            (&misfire as _, Type::TEXT),
            (&jitter as _, Type::INT8),
            (&from as _, Type::TIMESTAMPTZ),
            (&until as _, Type::TIMESTAMPTZ),
            (&At(anchor_at) as _, Type::TIMESTAMPTZ),
            (&next_at as _, Type::TIMESTAMPTZ),
            (&due_at as _, Type::TIMESTAMPTZ),
        ];
        let rows = self.write("put_schedule", PUT, &values).await?;
        let put = match column::<&str>(one(&rows)?, 0)? {
            "created" => Put::Created,
            "changed" => Put::Changed,
            _ => return Ok(Put::Unchanged),
        };
        self.wake(&Topic::Schedules);
        Ok(put)
    }

    async fn remove_schedule(&self, name: &ScheduleName) -> Result<bool> {
        let rows = self.write("remove_schedule", REMOVE, &[(&name.as_str(), Type::TEXT)]).await?;
        let was_there = column(one(&rows)?, 0)?;
        if was_there {
            self.wake(&Topic::Schedules);
        }
        Ok(was_there)
    }

    async fn pause_schedule(&self, name: &ScheduleName) -> Result<bool> {
        self.set_paused_schedule("pause_schedule", name, true, None).await
    }

    async fn resume_schedule(&self, name: &ScheduleName, next: Option<NextFire>) -> Result<bool> {
        next.map_or(Ok(()), |next| next.check()).map_err(|error| error.during("resume_schedule"))?;
        let changed = self.set_paused_schedule("resume_schedule", name, false, next).await?;
        if changed {
            self.wake(&Topic::Schedules);
        }
        Ok(changed)
    }

    async fn schedule(&self, name: &ScheduleName) -> Result<Option<ScheduleStatus>> {
        let rows = self.read("schedule", STATUS, &[(&Some(name.as_str()), Type::TEXT)]).await?;
        rows.first().map(status).transpose()
    }

    async fn schedule_status(&self) -> Result<Vec<ScheduleStatus>> {
        let rows = self.read("schedule_status", STATUS, &[(&None::<&str>, Type::TEXT)]).await?;
        statuses(&rows)
    }

    async fn schedule_history(&self, name: &ScheduleName) -> Result<Vec<Fired>> {
        let rows = self.read("schedule_history", HISTORY, &[(&name.as_str(), Type::TEXT)]).await?;
        rows.iter().map(|row| fired(column::<At>(row, 1)?.0, column::<At>(row, 2)?.0, column(row, 3)?)).collect()
    }

    async fn run_schedule(&self, name: &ScheduleName) -> Result<Fired> {
        let ran = self.write("run_schedule", RUN, &[(&name.as_str(), Type::TEXT)]).await;
        // As with a plain send there is nothing by which an unknown outcome could be asked for.
        let rows = ran.map_err(|error| match error.kind() {
            Kind::UnknownOutcome => error.retried(Retry::Never),
            _ => error,
        })?;
        let row = one(&rows)?;
        let at = column::<At>(row, 0)?.0;
        fired(at, at, column(row, 1)?)
    }

    async fn due_schedules(&self, leader: &LeaseToken, ttl: Option<Ttl>, max: u32) -> Result<Option<Due>> {
        let limit = due_limit(max).map_err(|error| error.during("due_schedules"))?;
        let (name, epoch, ttl) = (leader.name.as_str(), leader.epoch.get(), ttl.map(Ttl::as_micros));
        let (seen, instead) = self.looks().unzip();
        let values: [_; 7] = [
            (&name as _, Type::TEXT),
            (&epoch as _, Type::INT8),
            (&ttl as _, Type::INT8),
            (&(limit as i32) as _, Type::INT4),
            (&(LOOK_BYTES as i64) as _, Type::INT8),
            (&seen as _, Type::TIMESTAMPTZ),
            (&instead as _, Type::TIMESTAMPTZ),
        ];
        let rows = self.write("due_schedules", DUE, &values).await?;
        let Some((last, due)) = rows.split_last() else { return Ok(None) };
        let now = column::<At>(last, COLUMNS)?.0;
        self.looked(now);
        let next_due_at = column::<Option<At>>(last, COLUMNS + 1)?.map(|at| at.0);
        Ok(Some(Due { now, schedules: statuses(due)?, next_due_at }))
    }

    async fn fire_schedules(&self, leader: &LeaseToken, ticks: &[Tick]) -> Result<Vec<TickOutcome>> {
        Tick::check(ticks).map_err(|error| error.during("fire_schedules"))?;
        let (leader, epoch) = (leader.name.as_str(), leader.epoch.get());
        let names: Vec<&str> = ticks.iter().map(|tick| tick.name.as_str()).collect();
        let revisions: Vec<i64> = ticks.iter().map(|tick| tick.revision).collect();
        let times: Vec<String> = ticks.iter().map(|tick| list(&tick.fires)).collect();
        let skipped: Vec<i64> = ticks.iter().map(|tick| i64::try_from(tick.missed).unwrap_or(i64::MAX)).collect();
        let (next_times, next_dues): (Vec<_>, Vec<_>) = ticks.iter().map(|tick| instants(tick.next)).unzip();
        let problems: Vec<Option<&str>> = ticks.iter().map(|tick| tick.problem.as_deref()).collect();
        let values: [_; 9] = [
            (&leader as _, Type::TEXT),
            (&epoch as _, Type::INT8),
            (&names as _, Type::TEXT_ARRAY),
            (&revisions as _, Type::INT8_ARRAY),
            (&times as _, Type::TEXT_ARRAY),
            (&skipped as _, Type::INT8_ARRAY),
            (&next_times as _, Type::TIMESTAMPTZ_ARRAY),
            (&next_dues as _, Type::TIMESTAMPTZ_ARRAY),
            (&problems as _, Type::TEXT_ARRAY),
        ];
        let rows = self.write("fire_schedules", FIRE, &values).await?;
        let mut outcomes = vec![TickOutcome::Changed; ticks.len()];
        for row in &rows {
            let place = usize::try_from(column::<i64>(row, 0)? - 1).unwrap_or(usize::MAX);
            let Some(outcome) = outcomes.get_mut(place) else {
                return Err(Error::new(Kind::Internal, "the server answered for a tick that was not asked for"));
            };
            *outcome = if column(row, 1)? { TickOutcome::TargetGone } else { TickOutcome::Fired(all_fired(row)?) };
        }
        Ok(outcomes)
    }
}

/// When the last look for what is due was, by the server and by this host.
#[derive(Debug, Default)]
pub(crate) struct Looks(Mutex<Option<(Timestamp, Instant)>>);

impl PostgresStore {
    /// When the last look was, and when it would be now by half the time that has passed since: a server's clock that was set back would keep
    /// schedules waiting for as long as the step. At half the speed it catches up.
    fn looks(&self) -> Option<(At, At)> {
        let last = *self.last_look().0.lock().expect("no panic while it is held");
        last.map(|(seen, at)| (At(seen), At(seen + at.elapsed() / 2)))
    }

    fn looked(&self, now: Timestamp) {
        *self.last_look().0.lock().expect("no panic while it is held") = Some((now, Instant::now()));
    }

    async fn set_paused_schedule(
        &self,
        operation: &'static str,
        name: &ScheduleName,
        paused: bool,
        next: Option<NextFire>,
    ) -> Result<bool> {
        let (name, (next_at, due_at)) = (name.as_str(), instants(next));
        let values: [_; 4] = [
            (&name as _, Type::TEXT),
            (&paused as _, Type::BOOL),
            (&next_at as _, Type::TIMESTAMPTZ),
            (&due_at as _, Type::TIMESTAMPTZ),
        ];
        let rows = self.write(operation, SET_PAUSED, &values).await?;
        column(one(&rows)?, 0)
    }
}

fn instants(next: Option<NextFire>) -> (Option<At>, Option<At>) {
    (next.map(|next| At(next.nominal_at)), next.map(|next| At(next.due_at)))
}

/// Instants as the text of an array.
fn list(times: &[Timestamp]) -> String {
    let times: Vec<String> = times.iter().map(|at| nominal_time(*at)).collect();
    format!("{{{}}}", times.join(","))
}

/// Columns: place, is_gone, at, sent_times, sent.
fn all_fired(row: &Row) -> Result<Vec<Fired>> {
    let (at, times, messages) = (column::<At>(row, 2)?.0, column::<Vec<At>>(row, 3)?, column::<Vec<i64>>(row, 4)?);
    times.into_iter().zip(messages).map(|(time, message)| fired(time.0, at, message)).collect()
}

fn fired(nominal_at: Timestamp, fired_at: Timestamp, message: i64) -> Result<Fired> {
    let message = MessageId::new(message).map_err(|cause| damaged("fired", cause))?;
    Ok(Fired { nominal_at, fired_at, message })
}

/// What is stored of a schedule: the columns of `fencepost.schedule`.
fn stored(row: &Row) -> Result<StoredSchedule> {
    let at = |index| Ok(column::<Option<At>>(row, index)?.map(|at| at.0));
    Ok(StoredSchedule {
        name: column(row, 1)?,
        spec: column(row, 2)?,
        zone: column(row, 3)?,
        queue: column(row, 4)?,
        kind: column(row, 5)?,
        key: column(row, 6)?,
        payload: column(row, 7)?,
        misfire: column(row, 8)?,
        jitter: column(row, 9)?,
        from: at(10)?,
        until: at(11)?,
        revision: column(row, 12)?,
        is_paused: column(row, 13)?,
        anchor_at: column::<At>(row, 14)?.0,
        next_at: at(15)?,
        due_at: at(16)?,
        last: at(17)?.zip(at(18)?),
        last_message: column(row, 19)?,
        missed: column(row, 20)?,
        problem: column(row, 21)?,
    })
}

fn status(row: &Row) -> Result<ScheduleStatus> {
    stored(row)?.status().map_err(|cause| damaged("schedule", cause))
}

/// How schedules stand. One whose name no schedule can have could not be told of, and keeps no other from it.
fn statuses(rows: &[Row]) -> Result<Vec<ScheduleStatus>> {
    let told = |stored: StoredSchedule| {
        stored.status().inspect_err(|error| tracing::warn!(%error, "a schedule was left out: it has no name")).ok()
    };
    rows.iter().filter_map(|row| stored(row).map(told).transpose()).collect()
}
