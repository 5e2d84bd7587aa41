-- Marks what is due in one partition by now, a bounded number, more than any batch takes. Returns nothing.
-- Locks: the write lock.
UPDATE fencepost_aside SET due_at = 0
 WHERE rowid IN (SELECT rowid FROM fencepost_aside
                  WHERE consumer_id = ?1 AND partition = ?2 AND place = 'due' AND due_at > 0 AND due_at <= ?3
                  ORDER BY due_at LIMIT 10000);
