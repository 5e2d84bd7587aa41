-- Stores how a schedule stands after a tick, of which ?9 times fired, a pause or a resume; what it is stays. Returns nothing.
-- Locks: the write lock. Invariant: how it stood was read under it.
UPDATE fencepost_schedule
   SET revision = ?2, next_at = ?3, due_at = ?4, last_at = ?5, last_fired_at = ?6, last_message = ?7, missed = ?8, fires = fires + ?9,
       problem = ?10, paused = ?11
 WHERE id = ?1;
