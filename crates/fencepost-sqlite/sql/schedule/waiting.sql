-- The schedules that wait for their next time, by when it is due. Returns: the columns that schedule.rs decodes.
-- Locks: none.
SELECT name, spec, zone, queue, kind, key, misfire, jitter, starts_at, ends_at, revision, paused, anchor_at, next_at, due_at,
       last_at, last_fired_at, last_message, missed, problem, payload
  FROM fencepost_schedule WHERE due_at IS NOT NULL ORDER BY due_at, name LIMIT ?1;
