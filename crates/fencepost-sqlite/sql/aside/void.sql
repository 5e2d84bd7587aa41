-- Marks a message of the log as not to be handed out. Returns nothing.
-- Locks: the write lock. Invariant: without a key, so that nothing waits for it.
INSERT INTO fencepost_aside (consumer_id, position, id, partition, kind, payload, created_at, place, failures, deliveries)
SELECT ?1, position, coalesce(id, position), partition, kind, x'', created_at, 'void', 0, 0
  FROM fencepost_message WHERE position = ?2;
