-- A new queue. Returns nothing.
-- Locks: the write lock. Invariant: names are unique, and ids, which come from the store's counter of positions, are never used
-- again: messages of a dropped queue may still be there.
INSERT INTO fencepost_queue (id, name, partitions) VALUES (?1, ?2, ?3);
