-- What comes again now in one partition, by position, a bounded number. Returns the columns of find.sql.
-- Locks: the write lock is held.
SELECT position, id, partition, key, place, due_at, cause, failures, deliveries
  FROM fencepost_aside
 WHERE consumer_id = ?1 AND partition = ?2 AND place = 'due' AND due_at = 0
 ORDER BY position LIMIT ?3;
