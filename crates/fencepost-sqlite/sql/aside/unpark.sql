-- Lets parked messages of a key come again, up to a position. Returns nothing.
-- Locks: the write lock.
UPDATE fencepost_aside SET place = 'due', due_at = 0
 WHERE consumer_id = ?1 AND key = ?2 AND position <= ?3 AND place = 'parked';
