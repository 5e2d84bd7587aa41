-- Records up to where messages of a queue were removed. Returns nothing.
-- Locks: the write lock, in the transaction that removed them. Invariant: it never falls.
UPDATE fencepost_queue SET gone = max(gone, ?2) WHERE id = ?1;
