-- The messages of a key in a range of one partition that were not set aside, by position. Returns: position, id.
-- Locks: the write lock is held.
SELECT position, coalesce(id, position) FROM fencepost_message AS message
 WHERE queue_id = ?1 AND partition = ?2 AND position > ?3 AND position <= ?4 AND key = ?5
   AND NOT EXISTS (SELECT 1 FROM fencepost_aside AS aside
                    WHERE aside.consumer_id = ?6 AND aside.position = message.position)
 ORDER BY position;
