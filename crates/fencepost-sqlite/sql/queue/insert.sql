-- A new queue. Returns nothing.
-- Locks: the write lock. Invariant: names are unique, and an id is not used again while messages of a dropped queue are there.
INSERT INTO fencepost_queue (id, name, partitions)
SELECT 1 + max(coalesce((SELECT max(id) FROM fencepost_queue), 0), coalesce((SELECT max(queue_id) FROM fencepost_dropped), 0)),
       ?1, ?2;
