-- Marks that a slot was given back or that a member came or went. Returns nothing.
-- Locks: the write lock.
UPDATE fencepost_consumer SET changes = changes + 1 WHERE id = ?1;
