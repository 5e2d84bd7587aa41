-- Forgets a dropped queue of which nothing is left. Returns nothing.
-- Locks: the write lock.
DELETE FROM fencepost_dropped
 WHERE queue_id = ?1
   AND NOT EXISTS (SELECT 1 FROM fencepost_message WHERE queue_id = ?1)
   AND NOT EXISTS (SELECT 1 FROM fencepost_delayed WHERE queue_id = ?1)
   AND NOT EXISTS (SELECT 1 FROM fencepost_dead WHERE queue_id = ?1)
   AND NOT EXISTS (SELECT 1 FROM fencepost_once WHERE queue_id = ?1);
