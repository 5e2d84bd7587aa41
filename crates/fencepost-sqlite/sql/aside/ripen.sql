-- Marks what is due in one partition by now. Returns nothing.
-- Locks: the write lock.
UPDATE fencepost_aside SET due_at = 0
 WHERE consumer_id = ?1 AND partition = ?2 AND place = 'due' AND due_at > 0 AND due_at <= ?3;
