-- Records the store's counters, once for all calls of a transaction. Returns nothing.
-- Locks: the write lock. Invariant: epoch, position and clock never fall, whoever writes; positions and epochs are never given
-- twice.
UPDATE fencepost_store
   SET epoch = max(epoch, ?1), position = max(position, ?2), clock = max(clock, ?3),
       boot = iif(?3 >= clock, ?4, boot), boot_id = iif(?3 >= clock, ?5, boot_id);
