-- One consumer by its names. Returns no row or one: id, queue id, slots, partitions of the queue, whether that is paused,
-- on_failure, max_attempts, max_crashes, backoff, after_id.
-- Locks: the write lock is held by transitions.
SELECT consumer.id, queue.id, consumer.slots, queue.partitions, queue.paused,
       consumer.on_failure, consumer.max_attempts, consumer.max_crashes, consumer.backoff, consumer.after_id
  FROM fencepost_queue AS queue
  JOIN fencepost_consumer AS consumer ON consumer.queue_id = queue.id
 WHERE queue.name = ?1 AND consumer.name = ?2;
