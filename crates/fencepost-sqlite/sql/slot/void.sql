-- Voids every slot's token after the file changed its identity. Returns nothing.
-- Locks: the write lock. Invariant: no earlier epoch is the owner's; what was held stays closed for one TTL and its margin.
UPDATE fencepost_slot
   SET epoch = ?1, worker = '(before the store moved)', nonce = NULL, expires_at = ?2 + ttl + ttl / 10
 WHERE worker IS NOT NULL;
