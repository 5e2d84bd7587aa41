-- What an idempotency key stands for. Returns no row or one: id, digest.
-- Locks: the write lock is held.
SELECT id, digest FROM fencepost_once WHERE queue_id = ?1 AND key = ?2 AND expires_at > ?3;
