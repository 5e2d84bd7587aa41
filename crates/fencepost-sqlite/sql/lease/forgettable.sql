-- Whether there is a lease to forget. Returns one number, 0 or 1.
-- Locks: none.
SELECT EXISTS (SELECT 1 FROM fencepost_lease WHERE holder IS NULL AND epoch < ?1);
