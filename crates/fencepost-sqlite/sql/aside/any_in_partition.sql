-- Whether a consumer has anything set aside of one partition. Returns one number, 0 or 1.
-- Locks: none for a hint; the write lock is held by transitions.
SELECT EXISTS (SELECT 1 FROM fencepost_aside WHERE consumer_id = ?1 AND partition = ?2);
