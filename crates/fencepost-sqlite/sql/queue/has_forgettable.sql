-- Whether a queue has idempotency keys or dead letters past their time. Returns one number, 0 or 1.
-- Locks: none: a hint for maintenance.
SELECT EXISTS (SELECT 1 FROM fencepost_once WHERE queue_id = ?1 AND expires_at <= ?2)
       OR EXISTS (SELECT 1 FROM fencepost_dead WHERE queue_id = ?1 AND died_at <= ?3);
