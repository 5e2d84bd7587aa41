-- Stores a schedule that was put, a new one or in place of what it was. Returns nothing.
-- Locks: the write lock.
INSERT INTO fencepost_schedule (name, spec, zone, queue, kind, key, misfire, jitter, starts_at, ends_at, revision, paused, anchor_at,
       next_at, due_at, last_at, last_fired_at, last_message, missed, problem, payload, fires)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, 0)
ON CONFLICT (name) DO UPDATE
   SET spec = excluded.spec, zone = excluded.zone, queue = excluded.queue, kind = excluded.kind, key = excluded.key,
       misfire = excluded.misfire, jitter = excluded.jitter, starts_at = excluded.starts_at, ends_at = excluded.ends_at,
       revision = excluded.revision, paused = excluded.paused, anchor_at = excluded.anchor_at, next_at = excluded.next_at,
       due_at = excluded.due_at, last_at = excluded.last_at, last_fired_at = excluded.last_fired_at,
       last_message = excluded.last_message, missed = excluded.missed, problem = excluded.problem, payload = excluded.payload;
