-- One consumer by its names. Returns no row or one: id, queue id, slots, partitions of the queue.
-- Locks: the write lock is held by transitions.
SELECT consumer.id, queue.id, consumer.slots, queue.partitions
  FROM fencepost_queue AS queue
  JOIN fencepost_consumer AS consumer ON consumer.queue_id = queue.id
 WHERE queue.name = ?1 AND consumer.name = ?2;
