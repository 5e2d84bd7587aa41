// A queue, a sender and a worker with pg: DATABASE_URL=postgres://... node orders.mjs
// The schema is installed by `fencepost init`.

import pg from 'pg';

const [QUEUE, CONSUMER, WORKER] = ['orders', 'billing', 'node'];

// Whether somebody else owns the slot or the lease by now.
const isFenced = (error) => error.code === 'ZF001';

// Runs `work` in one transaction.
async function transaction(db, work) {
    await db.query('BEGIN');
    try {
        const answer = await work();
        await db.query('COMMIT');
        return answer;
    } catch (error) {
        await db.query('ROLLBACK');
        throw error;
    }
}

// Within the caller's transaction: the message is there when that commits.
const send = (db, what, key) => db.query('SELECT fencepost.send($1, $2::text, key => $3)', [QUEUE, what, key]);

// Claims a slot, handles what waits in it, and gives it back. Returns how many messages were acked.
async function work(db) {
    const claim = "SELECT slot, epoch FROM fencepost.claim($1, $2, $3, ttl => '30 s')";
    const { rows: [grant] } = await db.query(claim, [QUEUE, CONSUMER, WORKER]);
    if (!grant) return 0; // Every slot has an owner.
    const owned = [QUEUE, CONSUMER, grant.slot, grant.epoch];
    let acked = 0;
    try {
        for (;;) {
            const receive = 'SELECT *, fencepost.payload_text(m) AS what FROM fencepost.receive($1, $2, $3, $4, max => 100) m';
            const { rows: batch } = await db.query(receive, owned);
            if (batch.length === 0) break;
            acked += await handle(db, owned, batch);
        }
        await db.query('SELECT fencepost.release_slot($1, $2, $3, $4)', owned);
    } catch (error) {
        // Fenced: whatever this worker had begun is undone; its heir gets the batch.
        if (!isFenced(error)) throw error;
    }
    return acked;
}

// Effects and ack in one transaction. One that takes longer than a third of the TTL calls `renew_slot` meanwhile, elsewhere.
async function handle(db, owned, batch) {
    const [batchId, withdrawn, good] = [batch[0].batch_id, new Set(), []];
    for (const message of batch) {
        if (withdrawn.has(message.id)) continue; // Behind one of its key that failed.
        if (message.what === 'declined' && message.attempt === 1) {
            const nack = "SELECT withdrawn FROM fencepost.nack($1, $2, $3, $4, $5, $6, retry_after => '0 s', reason => 'no funds')";
            const { rows: [failed] } = await db.query(nack, [...owned, batchId, message.id]);
            failed.withdrawn.forEach((id) => withdrawn.add(id));
        } else {
            good.push(message);
        }
    }
    await transaction(db, async () => {
        for (const message of good) await db.query('INSERT INTO bill VALUES ($1, $2)', [message.id, message.what]);
        await db.query('SELECT fencepost.ack($1, $2, $3, $4, $5)', [...owned, batchId]);
    });
    return good.length;
}

// A write that counts only under a lease.
async function report(db) {
    const acquire = "SELECT granted, epoch FROM fencepost.lease_acquire('nightly', $1, '30 s')";
    const { rows: [lease] } = await db.query(acquire, [WORKER]);
    if (!lease.granted) return;
    await transaction(db, async () => {
        await db.query("SELECT fencepost.lease_guard('nightly', $1)", [lease.epoch]);
        await db.query("INSERT INTO bill VALUES (0, 'nightly report')");
    });
    await db.query("SELECT fencepost.lease_release('nightly', $1)", [lease.epoch]);
    // Who presents the epoch of an owner before is refused, and its transaction with it.
    try {
        await transaction(db, async () => {
            await db.query("INSERT INTO bill VALUES (-1, 'never')");
            await db.query("SELECT fencepost.lease_guard('nightly', $1)", [BigInt(lease.epoch) - 1n]);
        });
    } catch (error) {
        if (!isFenced(error)) throw error;
    }
}

const db = new pg.Client({ connectionString: process.env.DATABASE_URL });
await db.connect();
await db.query('SELECT fencepost.create_queue($1, partitions => 4)', [QUEUE]);
const create = "SELECT fencepost.create_consumer($1, $2, on_failure => 'pause', backoff => '10 ms')";
await db.query(create, [QUEUE, CONSUMER]);
await db.query('CREATE TABLE IF NOT EXISTS bill (message_id bigint PRIMARY KEY, what text NOT NULL)');
await transaction(db, async () => {
    await send(db, 'paid', 'customer-7');
    await send(db, 'declined', 'customer-7');
});
console.log('acked', await work(db));
await db.query('SELECT fencepost.maintain($1)', [QUEUE]);
await report(db);
const { rows } = await db.query('SELECT what FROM bill ORDER BY message_id');
rows.forEach((row) => console.log(row.what));
await db.end();
