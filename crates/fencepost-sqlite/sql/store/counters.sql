-- The store's counters. Returns one row: the highest epoch ever granted, the last position given, the highest instant recorded,
-- the same by the clock that counts suspend, and the run of the host in which that was.
-- Locks: read under the write lock by transitions. Invariant: the first three only rise.
SELECT epoch, position, clock, boot, boot_id FROM fencepost_store;
