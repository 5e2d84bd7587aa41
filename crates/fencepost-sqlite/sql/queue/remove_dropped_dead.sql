-- Removes dead letters of a dropped queue, a bounded number. Returns nothing; the count of rows tells.
-- Locks: the write lock, shortly.
DELETE FROM fencepost_dead WHERE rowid IN (SELECT rowid FROM fencepost_dead WHERE queue_id = ?1 LIMIT ?2);
