-- Removes the oldest consumed messages of one partition, a bounded number. Returns nothing; the count of rows tells.
-- Locks: the write lock, shortly. Invariant: cursors never move back and a consumer made later begins where storage does, so
-- what was consumed when it was looked up still is.
DELETE FROM fencepost_message
 WHERE position IN (SELECT position FROM fencepost_message
                     WHERE queue_id = ?1 AND partition = ?2 AND position <= ?3
                     ORDER BY position LIMIT ?4);
