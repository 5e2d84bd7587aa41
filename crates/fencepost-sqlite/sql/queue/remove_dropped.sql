-- Removes messages of a dropped queue, a bounded number. Returns nothing; the count of rows tells.
-- Locks: the write lock, shortly.
DELETE FROM fencepost_message
 WHERE position IN (SELECT position FROM fencepost_message WHERE queue_id = ?1 LIMIT ?2);
