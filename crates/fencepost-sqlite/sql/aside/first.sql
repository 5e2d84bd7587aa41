-- The first message of one partition that waits for a consumer: in the log after a cursor, and among those that were set aside. Returns at
-- most two rows: position, created_at.
-- Locks: none.
SELECT * FROM (
    SELECT position, created_at FROM fencepost_message AS message
     WHERE queue_id = ?4 AND partition = ?2 AND position > ?3
       AND NOT EXISTS (SELECT 1 FROM fencepost_aside AS aside
                        WHERE aside.consumer_id = ?1 AND aside.position = message.position)
     ORDER BY position LIMIT 1)
UNION ALL
SELECT * FROM (
    SELECT position, created_at FROM fencepost_aside
     WHERE consumer_id = ?1 AND partition = ?2 AND place <> 'void'
     ORDER BY position LIMIT 1);
