-- Forgets the record of leases that are about to be forgotten. Returns nothing.
-- Locks: the write lock, in the transaction of forget.sql.
DELETE FROM fencepost_forced WHERE lease IN (SELECT name FROM fencepost_lease WHERE holder IS NULL AND epoch < ?1);
