-- The content of a message that was set aside. Returns no row or one: position, id, key, kind, payload, headers, created_at,
-- failures, deliveries.
-- Locks: none.
SELECT position, id, key, kind, payload, headers, created_at, failures, deliveries
  FROM fencepost_aside WHERE consumer_id = ?1 AND position = ?2;
