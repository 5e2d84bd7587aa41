-- Ends a membership. Returns nothing; the count of rows tells whether it was there.
-- Locks: the write lock.
DELETE FROM fencepost_member WHERE consumer_id = ?1 AND member = ?2;
