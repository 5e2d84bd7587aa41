-- Whether the first notice is to go: it is too old, or there are too many after it. Returns one number, 0 or 1.
-- Locks: none.
SELECT EXISTS (
    SELECT 1 FROM (SELECT id, at FROM fencepost_notice ORDER BY id LIMIT 1)
     WHERE id < (SELECT max(id) FROM fencepost_notice)
       AND (at <= ?1 OR id <= (SELECT max(id) FROM fencepost_notice) - ?2)
);
