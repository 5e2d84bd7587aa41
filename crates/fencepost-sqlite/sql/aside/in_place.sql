-- What stands at one place in one partition, by position, a bounded number. Returns the columns of find.sql.
-- Locks: the write lock is held by transitions.
SELECT position, id, partition, key, place, due_at, cause, failures, deliveries
  FROM fencepost_aside WHERE consumer_id = ?1 AND partition = ?2 AND place = ?3 ORDER BY position LIMIT ?4;
