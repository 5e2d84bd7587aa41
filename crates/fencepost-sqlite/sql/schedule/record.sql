-- Records that a nominal time was fired. Returns nothing.
-- Locks: the write lock. Invariant: the key lets each nominal time in once.
INSERT INTO fencepost_fired (schedule_id, nominal_at, fired_at, message) VALUES (?1, ?2, ?3, ?4);
