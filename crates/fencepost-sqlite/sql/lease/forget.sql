-- Forgets free leases that nobody was granted since an epoch; epochs are not below the instant of their grant. Returns nothing.
-- Locks: the write lock. Invariant: epochs come from the store's counter, so a lease acquired again gets a higher one.
DELETE FROM fencepost_lease WHERE holder IS NULL AND epoch < ?1;
