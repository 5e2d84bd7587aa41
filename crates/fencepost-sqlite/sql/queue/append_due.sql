-- Gives a message that was held back its place in the log. Returns nothing.
-- Locks: the write lock. Invariant: it keeps its id; its order within its key counts from now.
INSERT INTO fencepost_message (position, queue_id, partition, key, kind, payload, headers, created_at, id, expires_at)
SELECT ?2, queue_id, partition, key, kind, payload, headers, created_at, id, expires_at
  FROM fencepost_delayed WHERE id = ?1;
