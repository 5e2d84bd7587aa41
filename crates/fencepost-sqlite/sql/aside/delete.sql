-- Finishes with a message that was set aside. Returns nothing.
-- Locks: the write lock.
DELETE FROM fencepost_aside WHERE consumer_id = ?1 AND position = ?2;
