-- Sets how long a queue keeps its messages. Returns nothing.
-- Locks: the write lock.
UPDATE fencepost_queue SET retain_consumed = ?2, retain_unread = ?3, retain_unread_bytes = ?4
 WHERE id = ?1 AND (retain_consumed, retain_unread, retain_unread_bytes) <> (?2, ?3, ?4);
