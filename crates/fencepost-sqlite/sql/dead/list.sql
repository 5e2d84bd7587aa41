-- Dead letters of a consumer by id, after one, a bounded number. Returns: id, position, key, kind, payload, headers, created_at,
-- attempts, cause, reason, died_at.
-- Locks: none.
SELECT id, position, key, kind, payload, headers, created_at, attempts, cause, reason, died_at
  FROM fencepost_dead WHERE queue_id = ?1 AND consumer = ?2 AND id > ?3 ORDER BY id LIMIT ?4;
