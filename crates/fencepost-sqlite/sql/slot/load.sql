-- One slot's whole state. Returns no row or one: cursor, epoch, worker, nonce, ttl, expires_at, batch, batch_through,
-- batch_size, deliveries, crashes, last_acked, plain, alone, isolated.
-- Locks: the write lock is held by transitions.
SELECT cursor, epoch, worker, nonce, ttl, expires_at, batch, batch_through, batch_size, deliveries, crashes, last_acked,
       plain, alone, isolated
  FROM fencepost_slot WHERE consumer_id = ?1 AND slot = ?2;
