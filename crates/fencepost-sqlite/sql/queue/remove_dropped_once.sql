-- Removes idempotency keys of a dropped queue, a bounded number. Returns nothing; the count of rows tells.
-- Locks: the write lock, shortly.
DELETE FROM fencepost_once
 WHERE queue_id = ?1 AND key IN (SELECT key FROM fencepost_once WHERE queue_id = ?1 LIMIT ?2);
