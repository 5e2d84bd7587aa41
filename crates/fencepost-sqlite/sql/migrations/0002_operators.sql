-- What operators took by force, with the reason: leases and slots. And queues that were dropped.

CREATE TABLE fencepost_forced (
    id          INTEGER PRIMARY KEY,
    at          INTEGER NOT NULL,
    lease       TEXT,
    consumer_id INTEGER REFERENCES fencepost_consumer (id) ON DELETE CASCADE,
    slot        INTEGER,
    epoch       INTEGER NOT NULL,
    held_by     TEXT,
    reason      TEXT    NOT NULL
) STRICT;

CREATE INDEX fencepost_forced_by_lease ON fencepost_forced (lease) WHERE lease IS NOT NULL;
CREATE INDEX fencepost_forced_by_consumer ON fencepost_forced (consumer_id) WHERE consumer_id IS NOT NULL;

-- Queues that were dropped while they held messages: maintenance removes these in small steps.
CREATE TABLE fencepost_dropped (
    queue_id INTEGER PRIMARY KEY
) STRICT;
