-- For callers of SQL: how schedules stand.
create or replace view fencepost.schedule_status with (security_barrier) as
select name, spec, zone, queue, kind, key, misfire, jitter * interval '1 microsecond' as jitter, starts_at, ends_at, paused, next_at, due_at,
    last_at, last_fired_at, last_message, missed, problem
from fencepost._schedule_state;
