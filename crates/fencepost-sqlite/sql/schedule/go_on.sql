-- Stores what a tick made of a schedule, of which ?9 times fired. Returns nothing.
-- Locks: the write lock. Invariant: the revision was compared under it.
UPDATE fencepost_schedule
   SET revision = ?2, next_at = ?3, due_at = ?4, last_at = ?5, last_fired_at = ?6, last_message = ?7, missed = ?8, fires = fires + ?9,
       problem = ?10
 WHERE id = ?1;
