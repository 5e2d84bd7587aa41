-- The message at a position. Returns no row or one: position, id, key, kind, payload, headers, created_at, expires_at.
-- Locks: none.
SELECT position, coalesce(id, position), key, kind, payload, headers, created_at, expires_at
  FROM fencepost_message WHERE position = ?1;
