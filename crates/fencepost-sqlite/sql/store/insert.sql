-- The store's one row, made with the schema. Returns nothing.
-- Locks: the write lock. Invariant: the incarnation is random, and the file's device and inode are kept with it.
INSERT INTO fencepost_store (one, incarnation, device, inode, epoch, position, clock, boot, boot_id)
VALUES (1, ?1, ?2, ?3, 0, 0, ?4, 0, 0);
