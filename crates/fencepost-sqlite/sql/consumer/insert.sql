-- A new consumer; its slots follow in the same transaction. Returns nothing.
-- Locks: the write lock. Invariant: names are unique within a queue.
INSERT INTO fencepost_consumer (queue_id, name, slots) VALUES (?1, ?2, ?3);
