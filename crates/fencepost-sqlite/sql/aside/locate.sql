-- A message of the log by its id. Returns no row or one: position, partition, key.
-- Locks: the write lock is held.
SELECT position, partition, key FROM fencepost_message WHERE position = ?2 AND queue_id = ?1 AND id IS NULL
UNION ALL
SELECT position, partition, key FROM fencepost_message WHERE queue_id = ?1 AND id = ?2;
