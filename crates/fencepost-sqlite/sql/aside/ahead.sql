-- How many messages of one partition were set aside although the cursor is before them. Returns one number.
-- Locks: none.
SELECT count(*) FROM fencepost_aside WHERE consumer_id = ?1 AND partition = ?2 AND position > ?3;
