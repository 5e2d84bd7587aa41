-- Every queue with what it holds, by name. Returns: name, partitions, consumers, stored messages, oldest created_at, paused,
-- retain_consumed, retain_unread, retain_unread_bytes, messages held back.
-- Locks: none. Counts messages by the index.
SELECT queue.name, queue.partitions,
       (SELECT count(*) FROM fencepost_consumer AS consumer WHERE consumer.queue_id = queue.id),
       (SELECT count(*) FROM fencepost_message AS message WHERE message.queue_id = queue.id),
       (SELECT message.created_at FROM fencepost_message AS message
         WHERE message.position = (SELECT min(position) FROM fencepost_message WHERE queue_id = queue.id)),
       queue.paused, queue.retain_consumed, queue.retain_unread, queue.retain_unread_bytes,
       (SELECT count(*) FROM fencepost_delayed AS delayed WHERE delayed.queue_id = queue.id)
  FROM fencepost_queue AS queue
 ORDER BY queue.name;
