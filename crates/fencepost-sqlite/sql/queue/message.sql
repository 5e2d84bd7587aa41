-- The message at a position. Returns no row or one: position, key, kind, payload, headers, created_at.
-- Locks: none.
SELECT position, key, kind, payload, headers, created_at FROM fencepost_message WHERE position = ?1;
