-- The notices after a number, in the order of their commits, a bounded number.
-- Locks: none.
SELECT id, channel, payload, at FROM fencepost_notice WHERE id > ?1 ORDER BY id LIMIT ?2;
