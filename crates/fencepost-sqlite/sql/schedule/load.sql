-- A schedule. Returns no row or one: the columns that schedule.rs decodes, its id, how often it has fired.
-- Locks: none.
SELECT name, spec, zone, queue, kind, key, misfire, jitter, starts_at, ends_at, revision, paused, anchor_at, next_at, due_at,
       last_at, last_fired_at, last_message, missed, problem, payload, id, fires
  FROM fencepost_schedule WHERE name = ?1;
