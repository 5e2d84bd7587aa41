-- Removes held-back messages of a dropped queue, a bounded number. Returns nothing; the count of rows tells.
-- Locks: the write lock, shortly.
DELETE FROM fencepost_delayed WHERE id IN (SELECT id FROM fencepost_delayed WHERE queue_id = ?1 LIMIT ?2);
