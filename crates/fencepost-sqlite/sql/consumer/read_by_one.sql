-- Forgets how much nobody has read, as a consumer does from now on. Returns nothing.
-- Locks: the write lock.
UPDATE fencepost_queue SET measured = 0, unread_bytes = 0 WHERE id = ?1;
