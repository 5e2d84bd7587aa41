-- What the ack of a batch settles in one partition, in no order. Returns the columns of find.sql.
-- Locks: the write lock is held. Without ORDER BY, which would read all that the consumer set aside.
SELECT position, id, partition, key, place, due_at, cause, failures, deliveries
  FROM fencepost_aside
 WHERE consumer_id = ?1 AND partition = ?2 AND place IN ('batch', 'retry', 'snooze', 'withdrawn', 'dead', 'void');
