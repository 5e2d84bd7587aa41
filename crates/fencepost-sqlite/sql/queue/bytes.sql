-- How large one message is, when it was sent, and whether it was held back. Returns no row or one: bytes of payload, created_at,
-- 0 or 1.
-- Locks: the write lock is held where something is removed by it.
SELECT length(payload), created_at, id IS NOT NULL FROM fencepost_message WHERE position = ?1;
