-- Removes the oldest messages of one partition that every consumer has acked past and that were sent long enough ago, a bounded
-- number. Returns: position of each. In a queue without consumers nothing is consumed.
-- Locks: the write lock, shortly. Invariant: the cursors are read in the same transaction, so that a consumer made meanwhile
-- keeps what it was promised.
DELETE FROM fencepost_message
 WHERE position IN (SELECT position FROM fencepost_message
                     WHERE queue_id = ?1 AND partition = ?2 AND created_at <= ?4
                       AND position <= (SELECT min(slot.cursor)
                                          FROM fencepost_consumer AS consumer
                                          JOIN fencepost_slot AS slot ON slot.consumer_id = consumer.id
                                         WHERE consumer.queue_id = ?1 AND ?2 % consumer.slots = slot.slot)
                     ORDER BY position LIMIT ?3)
RETURNING position;
