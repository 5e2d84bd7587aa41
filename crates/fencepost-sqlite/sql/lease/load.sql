-- One lease by name. Returns no row or one: epoch, holder, nonce, ttl, since, expires_at.
-- Locks: the write lock is held by transitions.
SELECT epoch, holder, nonce, ttl, since, expires_at FROM fencepost_lease WHERE name = ?1;
