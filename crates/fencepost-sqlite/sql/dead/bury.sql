-- Makes a message that was set aside a dead letter. Returns nothing.
-- Locks: the write lock.
INSERT OR REPLACE INTO fencepost_dead (queue_id, consumer, id, position, partition, key, kind, payload, headers, created_at,
                                       attempts, cause, reason, died_at)
SELECT ?3, ?4, id, position, partition, key, kind, payload, headers, created_at, ?5, ?6, reason, ?7
  FROM fencepost_aside WHERE consumer_id = ?1 AND position = ?2;
