-- How a queue keeps its messages. Returns no row or one: partitions, whether it has a consumer, retain_consumed, retain_unread,
-- retain_unread_bytes, measured, unread_bytes.
-- Locks: the write lock where something is removed by it.
SELECT partitions, EXISTS (SELECT 1 FROM fencepost_consumer WHERE queue_id = ?1),
       retain_consumed, retain_unread, retain_unread_bytes, measured, unread_bytes
  FROM fencepost_queue WHERE id = ?1;
