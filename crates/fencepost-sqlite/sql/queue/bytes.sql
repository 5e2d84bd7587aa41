-- How large one message is and when it was sent. Returns no row or one: bytes of payload, created_at.
-- Locks: the write lock is held.
SELECT length(payload), created_at FROM fencepost_message WHERE position = ?1;
