-- Keeps the last 100 records of a lease or of a consumer. Returns nothing.
-- Locks: the write lock.
DELETE FROM fencepost_forced
 WHERE id IN (SELECT id FROM fencepost_forced WHERE lease IS ?1 AND consumer_id IS ?2 ORDER BY id DESC LIMIT -1 OFFSET 100);
