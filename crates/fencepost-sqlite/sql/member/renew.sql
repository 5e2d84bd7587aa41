-- Renews a membership. Returns nothing; the count of rows tells whether it was there.
-- Locks: the write lock.
UPDATE fencepost_member SET worker = ?3, held = ?4, expires_at = ?5 WHERE consumer_id = ?1 AND member = ?2;
