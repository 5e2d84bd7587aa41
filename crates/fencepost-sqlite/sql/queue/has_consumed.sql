-- Whether a partition holds a message that every consumer has acked past and that was sent long enough ago. Returns one number,
-- 0 or 1.
-- Locks: none: a hint for maintenance, which looks again under the lock.
SELECT EXISTS (SELECT 1 FROM fencepost_message
                WHERE queue_id = ?1 AND partition = ?2 AND created_at <= ?3
                  AND position <= (SELECT min(slot.cursor)
                                     FROM fencepost_consumer AS consumer
                                     JOIN fencepost_slot AS slot ON slot.consumer_id = consumer.id
                                    WHERE consumer.queue_id = ?1 AND ?2 % consumer.slots = slot.slot));
