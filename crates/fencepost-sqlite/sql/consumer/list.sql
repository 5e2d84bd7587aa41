-- The consumers of the queue named, or of all when NULL, by name. Returns: queue, consumer.
-- Locks: none.
SELECT queue.name, consumer.name
  FROM fencepost_queue AS queue
  JOIN fencepost_consumer AS consumer ON consumer.queue_id = queue.id
 WHERE ?1 IS NULL OR queue.name = ?1
 ORDER BY queue.name, consumer.name;
