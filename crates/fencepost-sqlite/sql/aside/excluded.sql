-- Whether a message of the log was set aside. Returns one number, 0 or 1.
-- Locks: the write lock is held by transitions.
SELECT EXISTS (SELECT 1 FROM fencepost_aside WHERE consumer_id = ?1 AND position = ?2);
