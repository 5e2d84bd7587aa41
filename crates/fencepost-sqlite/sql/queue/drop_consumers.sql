-- Drops a queue's consumers with their slots and members. Returns nothing.
-- Locks: the write lock.
DELETE FROM fencepost_consumer WHERE queue_id = ?1;
