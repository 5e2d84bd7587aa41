-- Remembers what an idempotency key stands for. Returns nothing.
-- Locks: the write lock, in the transaction of the send. Invariant: one that is live is never replaced.
INSERT INTO fencepost_once (queue_id, key, id, digest, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (queue_id, key) DO UPDATE SET id = excluded.id, digest = excluded.digest, expires_at = excluded.expires_at;
