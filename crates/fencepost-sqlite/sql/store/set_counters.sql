-- Records the store's counters, once for all calls of a transaction. Returns nothing.
-- Locks: the write lock. Invariant: none of them ever falls, whoever writes; positions and epochs are never given twice.
UPDATE fencepost_store SET epoch = max(epoch, ?1), position = max(position, ?2), clock = max(clock, ?3);
