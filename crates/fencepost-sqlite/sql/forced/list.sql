-- What was taken by force of a lease or of a consumer, oldest first. Returns: at, slot, epoch, held_by, reason.
-- Locks: none.
SELECT at, slot, epoch, held_by, reason FROM fencepost_forced WHERE lease IS ?1 AND consumer_id IS ?2 ORDER BY id;
