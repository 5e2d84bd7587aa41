-- Forgets a dropped queue that has no message left. Returns nothing.
-- Locks: the write lock.
DELETE FROM fencepost_dropped
 WHERE queue_id = ?1 AND NOT EXISTS (SELECT 1 FROM fencepost_message WHERE queue_id = ?1);
