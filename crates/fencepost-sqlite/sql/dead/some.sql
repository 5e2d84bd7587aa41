-- The first dead letters of a consumer after an id, a bounded number. Returns: id, position, partition, key.
-- Locks: the write lock is held.
SELECT id, position, partition, key FROM fencepost_dead WHERE queue_id = ?1 AND consumer = ?2 AND id > ?3 ORDER BY id LIMIT ?4;
