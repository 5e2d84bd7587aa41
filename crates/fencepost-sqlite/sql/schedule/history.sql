-- The last 100 times that a schedule fired, the latest first. Returns: nominal_at, fired_at, message.
-- Locks: none.
SELECT f.nominal_at, f.fired_at, f.message
  FROM fencepost_schedule s JOIN fencepost_fired f ON f.schedule_id = s.id
 WHERE s.name = ?1 ORDER BY f.nominal_at DESC LIMIT 100;
