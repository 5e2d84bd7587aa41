-- Removes dead letters of a queue after their time, a bounded number. Returns nothing; the count of rows tells.
-- Locks: the write lock, shortly.
DELETE FROM fencepost_dead
 WHERE rowid IN (SELECT rowid FROM fencepost_dead WHERE queue_id = ?1 AND died_at <= ?2 ORDER BY died_at LIMIT ?3);
