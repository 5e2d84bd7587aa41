-- Removes memberships of a consumer that lapsed. Returns nothing.
-- Locks: the write lock.
DELETE FROM fencepost_member WHERE consumer_id = ?1 AND expires_at <= ?2;
