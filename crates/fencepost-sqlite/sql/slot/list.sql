-- Every slot of a consumer, in order. Returns the columns of load.sql, then slot.
-- Locks: the write lock is held by transitions.
SELECT cursor, epoch, worker, nonce, ttl, expires_at, batch, batch_through, batch_size, deliveries, crashes, last_acked,
       plain, alone, isolated, slot
  FROM fencepost_slot WHERE consumer_id = ?1 ORDER BY slot;
