-- Drops a consumer; its slots and members go with it. Returns nothing.
-- Locks: the write lock. Invariant: epochs come from the store's counter, so those of a consumer made later are higher.
DELETE FROM fencepost_consumer WHERE id = ?1;
