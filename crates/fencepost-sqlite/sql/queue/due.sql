-- Messages held back that are due, a bounded number, in the order of their times. Returns: id.
-- Locks: none for a hint; the write lock when they are appended.
SELECT id FROM fencepost_delayed WHERE queue_id = ?1 AND due_at <= ?2 ORDER BY due_at, id LIMIT ?3;
