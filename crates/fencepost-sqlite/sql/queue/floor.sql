-- The position that every slot of every consumer of a queue has acked past. Returns one row: cursor, or NULL without consumers.
-- Locks: none for a hint; the write lock when something is removed by it.
SELECT min(slot.cursor)
  FROM fencepost_consumer AS consumer
  JOIN fencepost_slot AS slot ON slot.consumer_id = consumer.id
 WHERE consumer.queue_id = ?1;
