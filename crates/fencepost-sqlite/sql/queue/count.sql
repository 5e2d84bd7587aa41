-- How many messages of one partition are after a cursor. Returns one number.
-- Locks: none.
SELECT count(*) FROM fencepost_message WHERE queue_id = ?1 AND partition = ?2 AND position > ?3;
