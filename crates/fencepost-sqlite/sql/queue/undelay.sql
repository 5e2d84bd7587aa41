-- Takes a message that was appended out of those held back. Returns nothing.
-- Locks: the write lock, in the transaction that appended it.
DELETE FROM fencepost_delayed WHERE id = ?1;
