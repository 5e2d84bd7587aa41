-- The cursors of a queue's consumers. Returns: slots of the consumer, slot, cursor.
-- Locks: none. Invariant: an open batch is above its slot's cursor, so it is never consumed.
SELECT consumer.slots, slot.slot, slot.cursor
  FROM fencepost_consumer AS consumer
  JOIN fencepost_slot AS slot ON slot.consumer_id = consumer.id
 WHERE consumer.queue_id = ?1;
