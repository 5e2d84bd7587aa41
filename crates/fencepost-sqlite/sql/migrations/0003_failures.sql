-- What becomes of messages that could not be handled, or not yet: delays, expiry, messages set aside, dead letters, idempotent
-- sends, paused queues, and how long messages are kept.

-- A message that was held back keeps the id it was sent under; of every other one the position is the id.
ALTER TABLE fencepost_message ADD COLUMN id INTEGER;
ALTER TABLE fencepost_message ADD COLUMN expires_at INTEGER;

CREATE INDEX fencepost_message_by_id ON fencepost_message (queue_id, id) WHERE id IS NOT NULL;

-- `gone` is the highest position removed. While nobody reads the queue, `unread_bytes` sums the payloads up to `measured`.
ALTER TABLE fencepost_queue ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;
ALTER TABLE fencepost_queue ADD COLUMN retain_consumed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE fencepost_queue ADD COLUMN retain_unread INTEGER NOT NULL DEFAULT 604800000000;
ALTER TABLE fencepost_queue ADD COLUMN retain_unread_bytes INTEGER NOT NULL DEFAULT 1073741824;
ALTER TABLE fencepost_queue ADD COLUMN gone INTEGER NOT NULL DEFAULT 0;
ALTER TABLE fencepost_queue ADD COLUMN measured INTEGER NOT NULL DEFAULT 0;
ALTER TABLE fencepost_queue ADD COLUMN unread_bytes INTEGER NOT NULL DEFAULT 0;

ALTER TABLE fencepost_consumer ADD COLUMN on_failure TEXT NOT NULL DEFAULT 'skip';
ALTER TABLE fencepost_consumer ADD COLUMN max_attempts INTEGER NOT NULL DEFAULT 10;
ALTER TABLE fencepost_consumer ADD COLUMN max_crashes INTEGER NOT NULL DEFAULT 5;
ALTER TABLE fencepost_consumer ADD COLUMN backoff INTEGER NOT NULL DEFAULT 1000000;
ALTER TABLE fencepost_consumer ADD COLUMN after_id INTEGER;

ALTER TABLE fencepost_slot ADD COLUMN plain INTEGER;
ALTER TABLE fencepost_slot ADD COLUMN alone INTEGER;
ALTER TABLE fencepost_slot ADD COLUMN isolated INTEGER;

UPDATE fencepost_slot SET plain = 1, alone = 0 WHERE batch IS NOT NULL;

-- Messages held back until they are due, under the id that their send returned.
CREATE TABLE fencepost_delayed (
    id         INTEGER PRIMARY KEY,
    queue_id   INTEGER NOT NULL,
    partition  INTEGER NOT NULL,
    key        TEXT,
    kind       TEXT    NOT NULL,
    payload    BLOB    NOT NULL,
    headers    TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    due_at     INTEGER NOT NULL
) STRICT;

CREATE INDEX fencepost_delayed_by_due ON fencepost_delayed (queue_id, due_at);

-- What a consumer set aside. A message is in its slot's range of the log, or here, never both. `place` is where it stands; a due
-- one whose time has come gets a `due_at` of 0, so that those are found by position. A void one has no content.
CREATE TABLE fencepost_aside (
    consumer_id INTEGER NOT NULL REFERENCES fencepost_consumer (id) ON DELETE CASCADE,
    position    INTEGER NOT NULL,
    id          INTEGER NOT NULL,
    partition   INTEGER NOT NULL,
    key         TEXT,
    kind        TEXT    NOT NULL,
    payload     BLOB    NOT NULL,
    headers     TEXT,
    created_at  INTEGER NOT NULL,
    place       TEXT    NOT NULL,
    due_at      INTEGER,
    cause       TEXT,
    failures    INTEGER NOT NULL,
    deliveries  INTEGER NOT NULL,
    reason      TEXT,
    PRIMARY KEY (consumer_id, position)
) STRICT;

CREATE INDEX fencepost_aside_by_place ON fencepost_aside (consumer_id, partition, place, due_at, position);
CREATE INDEX fencepost_aside_by_key ON fencepost_aside (consumer_id, key, position) WHERE key IS NOT NULL;
CREATE INDEX fencepost_aside_by_id ON fencepost_aside (consumer_id, id) WHERE id <> position;

-- Dead letters stay when their consumer is dropped, so they name it.
CREATE TABLE fencepost_dead (
    queue_id   INTEGER NOT NULL,
    consumer   TEXT    NOT NULL,
    id         INTEGER NOT NULL,
    position   INTEGER NOT NULL,
    partition  INTEGER NOT NULL,
    key        TEXT,
    kind       TEXT    NOT NULL,
    payload    BLOB    NOT NULL,
    headers    TEXT,
    created_at INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    cause      TEXT    NOT NULL,
    reason     TEXT,
    died_at    INTEGER NOT NULL,
    PRIMARY KEY (queue_id, consumer, id)
) STRICT;

CREATE INDEX fencepost_dead_by_age ON fencepost_dead (queue_id, died_at);

CREATE TABLE fencepost_once (
    queue_id   INTEGER NOT NULL,
    key        TEXT    NOT NULL,
    id         INTEGER NOT NULL,
    digest     BLOB    NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (queue_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX fencepost_once_by_expiry ON fencepost_once (queue_id, expires_at);
