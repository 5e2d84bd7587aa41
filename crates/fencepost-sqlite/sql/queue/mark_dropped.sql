-- Leaves a dropped queue's messages to maintenance. Returns nothing.
-- Locks: the write lock, in the transaction that drops the queue.
INSERT INTO fencepost_dropped (queue_id) VALUES (?1);
