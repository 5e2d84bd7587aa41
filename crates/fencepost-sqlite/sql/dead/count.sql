-- How many dead letters one consumer has. Returns one number.
-- Locks: none.
SELECT count(*) FROM fencepost_dead WHERE queue_id = ?1 AND consumer = ?2;
