-- Every lease, by name. Returns: epoch, holder, nonce, ttl, since, expires_at, name.
-- Locks: none.
SELECT epoch, holder, nonce, ttl, since, expires_at, name FROM fencepost_lease ORDER BY name;
