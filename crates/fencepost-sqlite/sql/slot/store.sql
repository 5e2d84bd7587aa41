-- Stores a slot's whole state. Returns nothing.
-- Locks: the write lock, since before the state was read. Invariant: only what the transition table returned is stored.
INSERT INTO fencepost_slot (consumer_id, slot, cursor, epoch, worker, nonce, ttl, expires_at, batch, batch_through,
                            batch_size, deliveries, crashes, last_acked, plain, alone, isolated)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
ON CONFLICT (consumer_id, slot) DO UPDATE
   SET cursor = excluded.cursor, epoch = excluded.epoch, worker = excluded.worker, nonce = excluded.nonce,
       ttl = excluded.ttl, expires_at = excluded.expires_at, batch = excluded.batch,
       batch_through = excluded.batch_through, batch_size = excluded.batch_size, deliveries = excluded.deliveries,
       crashes = excluded.crashes, last_acked = excluded.last_acked, plain = excluded.plain, alone = excluded.alone,
       isolated = excluded.isolated;
