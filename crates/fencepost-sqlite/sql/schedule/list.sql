-- Every schedule, by name. Returns: the columns that schedule.rs decodes.
-- Locks: none.
SELECT name, spec, zone, queue, kind, key, misfire, jitter, starts_at, ends_at, revision, paused, anchor_at, next_at, due_at,
       last_at, last_fired_at, last_message, missed, problem, payload
  FROM fencepost_schedule ORDER BY name;
