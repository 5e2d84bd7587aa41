-- A message set aside by its id. Returns no row or one: position, id, partition, key, place, due_at, cause, failures, deliveries.
-- Locks: the write lock is held.
SELECT position, id, partition, key, place, due_at, cause, failures, deliveries
  FROM fencepost_aside WHERE consumer_id = ?1 AND position = ?2 AND id = ?2
UNION ALL
SELECT position, id, partition, key, place, due_at, cause, failures, deliveries
  FROM fencepost_aside WHERE consumer_id = ?1 AND id = ?2 AND id <> position;
