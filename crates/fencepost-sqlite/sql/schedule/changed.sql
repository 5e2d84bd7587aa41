-- Counts a change that a leader wants to hear of. Returns nothing.
-- Locks: the write lock.
UPDATE fencepost_schedule_change SET changes = changes + 1;
