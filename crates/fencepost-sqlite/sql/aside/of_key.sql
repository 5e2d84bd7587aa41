-- The first messages of a key that were set aside, a bounded number. Returns: position, place.
-- Locks: the write lock is held.
SELECT position, place FROM fencepost_aside WHERE consumer_id = ?1 AND key = ?2 ORDER BY position LIMIT ?3;
