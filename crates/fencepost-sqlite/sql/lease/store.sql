-- Stores a lease's new state. Returns nothing.
-- Locks: the write lock. Invariant: the row outlives its holder, and its epoch never falls.
INSERT INTO fencepost_lease (name, epoch, holder, nonce, ttl, since, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (name) DO UPDATE
   SET epoch = max(epoch, excluded.epoch), holder = excluded.holder, nonce = excluded.nonce, ttl = excluded.ttl,
       since = excluded.since, expires_at = excluded.expires_at;
