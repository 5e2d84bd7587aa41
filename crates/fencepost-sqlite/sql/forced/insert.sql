-- Records that a lease or a slot was taken by force. Returns nothing.
-- Locks: the write lock. Invariant: in the same transaction as the transition.
INSERT INTO fencepost_forced (at, lease, consumer_id, slot, epoch, held_by, reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);
