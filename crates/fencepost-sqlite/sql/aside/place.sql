-- Moves a message that was set aside. Returns nothing.
-- Locks: the write lock.
UPDATE fencepost_aside SET place = ?3, due_at = ?4, cause = ?5, failures = ?6, deliveries = ?7, reason = coalesce(?8, reason)
 WHERE consumer_id = ?1 AND position = ?2;
