-- Removes one dead letter. Returns nothing.
-- Locks: the write lock.
DELETE FROM fencepost_dead WHERE queue_id = ?1 AND consumer = ?2 AND id = ?3;
