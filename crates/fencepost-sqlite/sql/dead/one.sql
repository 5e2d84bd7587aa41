-- One dead letter. Returns no row or one: id, position, partition, key.
-- Locks: the write lock is held.
SELECT id, position, partition, key FROM fencepost_dead WHERE queue_id = ?1 AND consumer = ?2 AND id = ?3;
