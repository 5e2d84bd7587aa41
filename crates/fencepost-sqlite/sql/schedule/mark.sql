-- A number that differs once schedules were changed. Returns one row.
-- Locks: none.
SELECT changes FROM fencepost_schedule_change;
