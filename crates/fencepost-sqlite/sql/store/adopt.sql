-- Makes the file a new incarnation. Returns nothing.
-- Locks: the write lock. Invariant: the counter jumps past everything that the other file may have granted meanwhile.
UPDATE fencepost_store
   SET incarnation = ?1, device = ?2, inode = ?3, epoch = max(epoch, ?4), clock = max(clock, ?5), boot = 0, boot_id = 0;
