-- When the next message held back is due. Returns one row: due_at or NULL.
-- Locks: none.
SELECT min(due_at) FROM fencepost_delayed WHERE queue_id = ?1;
