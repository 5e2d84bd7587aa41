-- How many messages that the log of one partition has after a cursor were set aside. What was replayed may not be in the log any more.
-- Returns one number.
-- Locks: none.
SELECT count(*) FROM fencepost_aside AS aside
 WHERE consumer_id = ?1 AND partition = ?2 AND position > ?3
   AND EXISTS (SELECT 1 FROM fencepost_message AS message
                WHERE message.queue_id = ?4 AND message.partition = ?2 AND message.position = aside.position);
