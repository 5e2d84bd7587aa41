-- How often something about a consumer's slots or members changed. Returns no row or one.
-- Locks: none.
SELECT consumer.changes
  FROM fencepost_queue AS queue
  JOIN fencepost_consumer AS consumer ON consumer.queue_id = queue.id
 WHERE queue.name = ?1 AND consumer.name = ?2;
