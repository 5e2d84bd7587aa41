-- Keeps the last 100 times that a schedule fired. Returns nothing.
-- Locks: the write lock.
DELETE FROM fencepost_fired
 WHERE schedule_id = ?1
   AND nominal_at <= (SELECT nominal_at FROM fencepost_fired WHERE schedule_id = ?1 ORDER BY nominal_at DESC LIMIT 1 OFFSET 100);
