-- A new membership. Returns nothing.
-- Locks: the write lock.
INSERT INTO fencepost_member (consumer_id, member, worker, held, expires_at) VALUES (?1, ?2, ?3, ?4, ?5);
