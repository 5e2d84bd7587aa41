-- Voids every lease's token after the file changed its identity. Returns nothing.
-- Locks: the write lock. Invariant: no earlier epoch is the holder's; what was held stays closed for one TTL and its margin.
UPDATE fencepost_lease
   SET epoch = ?1, holder = '(before the store moved)', nonce = NULL, since = ?2, expires_at = ?2 + ttl + ttl / 10
 WHERE holder IS NOT NULL;
