-- The queues that got messages after one position and up to another, held back ones included. Returns: name.
-- Locks: none. Reads only the new end of the log.
SELECT name FROM fencepost_queue
 WHERE id IN (SELECT queue_id FROM fencepost_message WHERE position > ?1 AND position <= ?2
              UNION ALL
              SELECT queue_id FROM fencepost_delayed WHERE id > ?1 AND id <= ?2);
