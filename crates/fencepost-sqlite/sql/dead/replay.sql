-- Hands a dead letter to its consumer once more, as if it had never failed. Returns nothing.
-- Locks: the write lock.
INSERT INTO fencepost_aside (consumer_id, position, id, partition, key, kind, payload, headers, created_at,
                                        place, due_at, failures, deliveries)
SELECT ?1, position, id, partition, key, kind, payload, headers, created_at, ?5, ?6, 0, 0
  FROM fencepost_dead WHERE queue_id = ?2 AND consumer = ?3 AND id = ?4;
