-- The schema of leases, queues and ordered consumers.
-- Instants and durations are microseconds. A NULL owner column means that nobody owns the row.

CREATE TABLE fencepost_schema (
    version      INTEGER PRIMARY KEY,
    name         TEXT    NOT NULL,
    checksum     TEXT    NOT NULL,
    installed_at INTEGER NOT NULL
) STRICT;

-- One row: who this store is, and the counters that only rise.
CREATE TABLE fencepost_store (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    incarnation TEXT    NOT NULL,
    device      INTEGER NOT NULL,
    inode       INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    clock       INTEGER NOT NULL,
    boot        INTEGER NOT NULL,
    boot_id     INTEGER NOT NULL
) STRICT;

CREATE TABLE fencepost_lease (
    name       TEXT PRIMARY KEY,
    epoch      INTEGER NOT NULL,
    holder     TEXT,
    nonce      TEXT,
    ttl        INTEGER,
    since      INTEGER,
    expires_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE fencepost_queue (
    id         INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL UNIQUE,
    partitions INTEGER NOT NULL
) STRICT;

-- The log. One position for all queues, so appending always writes at the right edge of the table.
CREATE TABLE fencepost_message (
    position   INTEGER PRIMARY KEY,
    queue_id   INTEGER NOT NULL,
    partition  INTEGER NOT NULL,
    key        TEXT,
    kind       TEXT    NOT NULL,
    payload    BLOB    NOT NULL,
    headers    TEXT,
    created_at INTEGER NOT NULL
) STRICT;

-- What a slot reads: the positions of its partitions. The position is part of every index entry as the table's row id.
CREATE INDEX fencepost_message_by_partition ON fencepost_message (queue_id, partition);

-- `changes` rises with everything that a sleeping worker may want to know of: a slot given back, a member come or gone.
CREATE TABLE fencepost_consumer (
    id       INTEGER PRIMARY KEY,
    queue_id INTEGER NOT NULL REFERENCES fencepost_queue (id),
    name     TEXT    NOT NULL,
    slots    INTEGER NOT NULL,
    changes  INTEGER NOT NULL DEFAULT 0,
    UNIQUE (queue_id, name)
) STRICT;

-- Cursor, owner and open batch are one state in one row.
CREATE TABLE fencepost_slot (
    consumer_id   INTEGER NOT NULL REFERENCES fencepost_consumer (id) ON DELETE CASCADE,
    slot          INTEGER NOT NULL,
    cursor        INTEGER NOT NULL,
    epoch         INTEGER,
    worker        TEXT,
    nonce         TEXT,
    ttl           INTEGER,
    expires_at    INTEGER,
    batch         INTEGER,
    batch_through INTEGER,
    batch_size    INTEGER,
    deliveries    INTEGER,
    crashes       INTEGER,
    last_acked    INTEGER,
    PRIMARY KEY (consumer_id, slot)
) STRICT, WITHOUT ROWID;

CREATE TABLE fencepost_member (
    consumer_id INTEGER NOT NULL REFERENCES fencepost_consumer (id) ON DELETE CASCADE,
    member      TEXT    NOT NULL,
    worker      TEXT    NOT NULL,
    held        INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    PRIMARY KEY (consumer_id, member)
) STRICT, WITHOUT ROWID;
