-- The highest instant recorded. Returns one row: clock, boot, boot_id.
-- Locks: none.
SELECT clock, boot, boot_id FROM fencepost_store;
