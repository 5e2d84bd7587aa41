-- A page of one partition's positions after a cursor and up to an end, in order. Returns: position.
-- Locks: none. Reads one range of the index and nothing else.
SELECT position FROM fencepost_message
 WHERE queue_id = ?1 AND partition = ?2 AND position > ?3 AND position <= ?4
 ORDER BY position LIMIT ?5;
