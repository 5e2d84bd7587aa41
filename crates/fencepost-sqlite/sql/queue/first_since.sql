-- The first stored message that was sent at an instant or later. Returns one row: position or NULL.
-- Locks: none. Reads the whole queue.
SELECT min(position) FROM fencepost_message WHERE queue_id = ?1 AND created_at >= ?2;
