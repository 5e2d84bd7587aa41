-- Removes one message if it was sent until then. Returns nothing; the count of rows tells.
-- Locks: the write lock.
DELETE FROM fencepost_message WHERE position = ?1 AND created_at <= ?2;
