-- Parks the later messages of a key that were to come again. Returns nothing.
-- Locks: the write lock. Invariant: of one key only the messages before the first that waits for its time come again.
UPDATE fencepost_aside SET place = 'parked', due_at = NULL
 WHERE consumer_id = ?1 AND key = ?2 AND position > ?3 AND place = 'due';
