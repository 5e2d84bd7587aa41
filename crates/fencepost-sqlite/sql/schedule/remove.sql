-- Removes a schedule with what it has fired. Returns nothing.
-- Locks: the write lock.
DELETE FROM fencepost_schedule WHERE name = ?1;
