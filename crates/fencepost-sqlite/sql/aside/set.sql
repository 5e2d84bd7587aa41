-- Sets a message of the log aside. Returns nothing.
-- Locks: the write lock. Invariant: what is set aside is not handed out from the log.
INSERT INTO fencepost_aside (consumer_id, position, id, partition, key, kind, payload, headers, created_at,
                             place, due_at, cause, failures, deliveries, reason)
SELECT ?1, position, coalesce(id, position), partition, key, kind, payload, headers, created_at, ?3, ?4, ?5, 0, 0, ?6
  FROM fencepost_message WHERE position = ?2;
