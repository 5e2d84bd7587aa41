-- Pauses a queue or lets it go on. Returns nothing; the count of rows tells whether that changed something.
-- Locks: the write lock.
UPDATE fencepost_queue SET paused = ?2 WHERE id = ?1 AND paused <> ?2;
