-- Removes one message. Returns nothing.
-- Locks: the write lock.
DELETE FROM fencepost_message WHERE position = ?1;
