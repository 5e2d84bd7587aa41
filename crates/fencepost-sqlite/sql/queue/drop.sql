-- Drops a queue; its consumers went before. Returns nothing.
-- Locks: the write lock.
DELETE FROM fencepost_queue WHERE id = ?1;
