-- Removes notices that are too old or too many, from the beginning, a bounded number. Returns nothing; the count of rows tells.
-- Locks: the write lock, shortly.
-- INVARIANT: what is left has no holes, so that a listener sees what it missed; the last one stays, so that its number never repeats.
DELETE FROM fencepost_notice
 WHERE id <= (
    SELECT max(id) FROM (SELECT id, at FROM fencepost_notice ORDER BY id LIMIT ?3)
     WHERE at <= ?1 OR id <= (SELECT max(id) FROM fencepost_notice) - ?2)
   AND id < (SELECT max(id) FROM fencepost_notice);
