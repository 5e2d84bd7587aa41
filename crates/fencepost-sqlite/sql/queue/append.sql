-- One message at the end of the log. Returns nothing.
-- Locks: the write lock. Invariant: positions rise in commit order, as one transaction writes at a time.
INSERT INTO fencepost_message (position, queue_id, partition, key, kind, payload, headers, created_at, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);
