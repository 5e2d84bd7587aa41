-- A new consumer; its slots follow in the same transaction. Returns nothing.
-- Locks: the write lock. Invariant: names are unique within a queue.
INSERT INTO fencepost_consumer (queue_id, name, slots, on_failure, max_attempts, max_crashes, backoff, after_id)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);
