-- A queue, a sender and a worker in SQL: psql "$DATABASE_URL" --set ON_ERROR_STOP=1 --file orders.sql
-- The schema is installed by `fencepost init`. What a worker keeps between calls are its slot and its epoch.
SELECT fencepost.create_queue('orders', partitions => 4);
SELECT fencepost.create_consumer('orders', 'billing', on_failure => 'pause', backoff => '10 ms');
CREATE TABLE IF NOT EXISTS bill (message_id bigint PRIMARY KEY, what text NOT NULL);

-- Send: the message is there when this commits, and never was if it does not.
BEGIN;
SELECT fencepost.send('orders', 'paid', key => 'customer-7');
SELECT fencepost.send('orders', 'declined', key => 'customer-7');
COMMIT;

-- Claim a slot, and take what waits in it.
SELECT slot, epoch FROM fencepost.claim('orders', 'billing', 'psql', ttl => '30 s') \gset
SELECT batch_id, id AS paid_id FROM fencepost.receive('orders', 'billing', :slot, :epoch) WHERE fencepost.payload_text(receive) = 'paid' \gset
SELECT id AS declined_id FROM fencepost.receive('orders', 'billing', :slot, :epoch) WHERE fencepost.payload_text(receive) = 'declined' \gset

-- One that fails comes again; the rest is acked with its effects, in one transaction in which the epoch is checked.
SELECT outcome FROM fencepost.nack('orders', 'billing', :slot, :epoch, :batch_id, :declined_id, retry_after => '0 s', reason => 'no funds');
BEGIN;
INSERT INTO bill VALUES (:paid_id, 'paid');
SELECT fencepost.ack('orders', 'billing', :slot, :epoch, :batch_id);
COMMIT;

-- Work that takes long renews, at each third of the TTL.
SELECT fencepost.renew_slot('orders', 'billing', :slot, :epoch);

-- The second attempt.
SELECT batch_id, id, attempt FROM fencepost.receive('orders', 'billing', :slot, :epoch) \gset
BEGIN;
INSERT INTO bill VALUES (:id, 'paid late, attempt ' || :attempt);
SELECT fencepost.ack('orders', 'billing', :slot, :epoch, :batch_id);
COMMIT;

-- Give the slot back, and remove what nobody needs any more. Any session may do the latter, in a transaction of its own.
SELECT fencepost.release_slot('orders', 'billing', :slot, :epoch);
SELECT fencepost.maintain('orders');

-- A write that counts only under a lease.
SELECT epoch AS term FROM fencepost.lease_acquire('nightly', 'psql', '30 s') \gset
BEGIN;
SELECT fencepost.lease_guard('nightly', :term);
INSERT INTO bill VALUES (0, 'nightly report');
COMMIT;
SELECT fencepost.lease_release('nightly', :term);

SELECT what FROM bill ORDER BY message_id;
