-- The store's counters. Returns one row: the highest epoch ever granted, the last position given, the highest instant recorded.
-- Locks: read under the write lock by transitions. Invariant: all of them only rise.
SELECT epoch, position, clock FROM fencepost_store;
