-- How many dead letters every consumer of the queue named, or of all when NULL, has. Returns: queue, consumer, count.
-- Locks: none.
SELECT queue.name, dead.consumer, count(*)
  FROM fencepost_dead AS dead
  JOIN fencepost_queue AS queue ON queue.id = dead.queue_id
 WHERE ?1 IS NULL OR queue.name = ?1
 GROUP BY queue.name, dead.consumer ORDER BY queue.name, dead.consumer;
