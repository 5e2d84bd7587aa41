-- Records how far a queue that nobody reads was measured. Returns nothing.
-- Locks: the write lock.
UPDATE fencepost_queue SET measured = ?2, unread_bytes = ?3 WHERE id = ?1;
