-- The live members of a consumer, by label. Returns: worker, held, expires_at.
-- Locks: none of its own.
SELECT worker, held, expires_at FROM fencepost_member WHERE consumer_id = ?1 AND expires_at > ?2 ORDER BY worker, member;
