-- A new queue. Returns nothing.
-- Locks: the write lock. Invariant: names are unique.
INSERT INTO fencepost_queue (name, partitions) VALUES (?1, ?2);
