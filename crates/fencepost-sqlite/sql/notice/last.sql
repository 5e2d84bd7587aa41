-- The number of the last notice, 0 before the first. Returns one number.
-- Locks: none.
SELECT coalesce(max(id), 0) FROM fencepost_notice;
