-- Where a queue's log was cut off and where it begins. Returns one row: gone, first position stored or NULL.
-- Locks: none.
SELECT gone, (SELECT min(position) FROM fencepost_message WHERE queue_id = ?1) FROM fencepost_queue WHERE id = ?1;
