-- One message that is held back. Returns nothing.
-- Locks: the write lock. Invariant: its id is a position of the log that no message gets.
INSERT INTO fencepost_delayed (id, queue_id, partition, key, kind, payload, headers, created_at, expires_at, due_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10);
