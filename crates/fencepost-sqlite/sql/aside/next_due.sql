-- When the next message of one partition comes again. Returns one row: due_at or NULL.
-- Locks: none.
SELECT min(due_at) FROM fencepost_aside WHERE consumer_id = ?1 AND partition = ?2 AND place = 'due';
