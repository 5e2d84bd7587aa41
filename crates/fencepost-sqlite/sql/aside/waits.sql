-- Whether an earlier message of a key was set aside. Returns one number, 0 or 1.
-- Locks: the write lock is held.
SELECT EXISTS (SELECT 1 FROM fencepost_aside WHERE consumer_id = ?1 AND key = ?2 AND position < ?3);
