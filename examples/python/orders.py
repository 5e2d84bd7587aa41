"""A queue, a sender and a worker with psycopg 3: DATABASE_URL=postgres://... python orders.py

The schema is installed by `fencepost init`.
"""

import os

import psycopg

QUEUE, CONSUMER, WORKER = "orders", "billing", "python"


def is_fenced(error: psycopg.Error) -> bool:
    """Whether somebody else owns the slot or the lease by now."""
    return error.sqlstate == "ZF001"


def send(db: psycopg.Connection, what: str, key: str) -> None:
    """Within the caller's transaction: the message is there when that commits."""
    db.execute("SELECT fencepost.send(%s, %s::text, key => %s)", (QUEUE, what, key))


def work(db: psycopg.Connection) -> int:
    """Claims a slot, handles what waits in it, and gives it back. Returns how many messages were acked."""
    grant = db.execute("SELECT slot, epoch FROM fencepost.claim(%s, %s, %s, ttl => '30 s')", (QUEUE, CONSUMER, WORKER)).fetchone()
    if grant is None:
        return 0  # Every slot has an owner.
    owned = (QUEUE, CONSUMER, *grant)
    acked = 0
    try:
        while batch := receive(db, owned):
            acked += handle(db, owned, batch)
        db.execute("SELECT fencepost.release_slot(%s, %s, %s, %s)", owned)
    except psycopg.Error as error:
        if not is_fenced(error):
            raise
        # Whatever this worker had begun is undone; its heir gets the batch.
    return acked


def receive(db: psycopg.Connection, owned: tuple) -> list:
    return db.execute(
        "SELECT batch_id, id, fencepost.payload_text(m), attempt FROM fencepost.receive(%s, %s, %s, %s, max => 100) m", owned
    ).fetchall()


def handle(db: psycopg.Connection, owned: tuple, batch: list) -> int:
    """Effects and ack in one transaction. One that takes longer than a third of the TTL calls `renew_slot` meanwhile, elsewhere."""
    batch_id, withdrawn, good = batch[0][0], set(), []
    for _, message, what, attempt in batch:
        if message in withdrawn:
            continue  # Behind one of its key that failed.
        if what == "declined" and attempt == 1:
            failed = db.execute(
                "SELECT withdrawn FROM fencepost.nack(%s, %s, %s, %s, %s, %s, retry_after => '0 s', reason => 'no funds')",
                (*owned, batch_id, message),
            ).fetchone()
            withdrawn.update(failed[0])
        else:
            good.append((message, what))
    with db.transaction():
        for row in good:
            db.execute("INSERT INTO bill VALUES (%s, %s)", row)
        db.execute("SELECT fencepost.ack(%s, %s, %s, %s, %s)", (*owned, batch_id))
    return len(good)


def report(db: psycopg.Connection) -> None:
    """A write that counts only under a lease."""
    granted, epoch = db.execute("SELECT granted, epoch FROM fencepost.lease_acquire('nightly', %s, '30 s')", (WORKER,)).fetchone()
    if not granted:
        return
    with db.transaction():
        db.execute("SELECT fencepost.lease_guard('nightly', %s)", (epoch,))
        db.execute("INSERT INTO bill VALUES (0, 'nightly report')")
    db.execute("SELECT fencepost.lease_release('nightly', %s)", (epoch,))
    # Who presents the epoch of an owner before is refused, and its transaction with it.
    try:
        with db.transaction():
            db.execute("INSERT INTO bill VALUES (-1, 'never')")
            db.execute("SELECT fencepost.lease_guard('nightly', %s)", (epoch - 1,))
    except psycopg.Error as error:
        assert is_fenced(error)


def main() -> None:
    # autocommit: every call is a transaction of its own, but for those within `db.transaction()`.
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as db:
        db.execute("SELECT fencepost.create_queue(%s, partitions => 4)", (QUEUE,))
        db.execute("SELECT fencepost.create_consumer(%s, %s, on_failure => 'pause', backoff => '10 ms')", (QUEUE, CONSUMER))
        db.execute("CREATE TABLE IF NOT EXISTS bill (message_id bigint PRIMARY KEY, what text NOT NULL)")
        with db.transaction():
            send(db, "paid", "customer-7")
            send(db, "declined", "customer-7")
        print("acked", work(db))
        db.execute("SELECT fencepost.maintain(%s)", (QUEUE,))
        report(db)
        for (what,) in db.execute("SELECT what FROM bill ORDER BY message_id"):
            print(what)


if __name__ == "__main__":
    main()
