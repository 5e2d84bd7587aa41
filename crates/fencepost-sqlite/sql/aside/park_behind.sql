-- Parks the later messages of a key that were to come again. Returns nothing. Only the first ones of a key come again, so it looks no
-- further than the number that are let go at once.
-- Locks: the write lock. Invariant: of one key only the messages before the first that waits for its time come again.
UPDATE fencepost_aside SET place = 'parked', due_at = NULL
 WHERE consumer_id = ?1 AND key = ?2 AND position > ?3 AND place = 'due'
   AND position <= coalesce((SELECT position FROM fencepost_aside
                              WHERE consumer_id = ?1 AND key = ?2 AND position > ?3
                              ORDER BY position LIMIT 1 OFFSET ?4), 9223372036854775807);
