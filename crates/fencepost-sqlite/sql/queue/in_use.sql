-- What keeps a queue from being dropped without force. Returns one row: consumers, whether it holds a message, a dead one included.
-- Locks: the write lock is held.
SELECT (SELECT count(*) FROM fencepost_consumer WHERE queue_id = ?1),
       EXISTS (SELECT 1 FROM fencepost_message WHERE queue_id = ?1)
       OR EXISTS (SELECT 1 FROM fencepost_delayed WHERE queue_id = ?1)
       OR EXISTS (SELECT 1 FROM fencepost_dead WHERE queue_id = ?1);
