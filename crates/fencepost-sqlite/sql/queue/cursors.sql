-- The cursors of every slot of every consumer of a queue. Returns: slots of the consumer, slot, cursor.
-- Locks: none for a hint; the write lock when something is removed by them.
SELECT consumer.slots, slot.slot, slot.cursor
  FROM fencepost_consumer AS consumer
  JOIN fencepost_slot AS slot ON slot.consumer_id = consumer.id
 WHERE consumer.queue_id = ?1;
