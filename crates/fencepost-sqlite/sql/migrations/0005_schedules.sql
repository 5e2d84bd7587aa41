-- Schedules, and what they have fired.

-- `next_at` and `due_at` are set while a schedule waits for its next time. `fires` counts what it has fired.
CREATE TABLE fencepost_schedule (
    id              INTEGER PRIMARY KEY,
    name            TEXT    NOT NULL UNIQUE,
    spec            TEXT    NOT NULL,
    zone            TEXT    NOT NULL,
    queue           TEXT    NOT NULL,
    kind            TEXT    NOT NULL,
    key             TEXT,
    misfire         TEXT    NOT NULL,
    jitter          INTEGER NOT NULL,
    starts_at       INTEGER,
    ends_at         INTEGER,
    revision        INTEGER NOT NULL,
    paused          INTEGER NOT NULL,
    anchor_at       INTEGER NOT NULL,
    next_at         INTEGER,
    due_at          INTEGER,
    last_at         INTEGER,
    last_fired_at   INTEGER,
    last_message    INTEGER,
    missed          INTEGER NOT NULL,
    problem         TEXT,
    fires           INTEGER NOT NULL,
    payload         BLOB    NOT NULL
) STRICT;

CREATE INDEX fencepost_schedule_by_due ON fencepost_schedule (due_at, name) WHERE due_at IS NOT NULL;

-- What was fired last, by nominal time: each fires once.
CREATE TABLE fencepost_fired (
    schedule_id INTEGER NOT NULL REFERENCES fencepost_schedule (id) ON DELETE CASCADE,
    nominal_at  INTEGER NOT NULL,
    fired_at    INTEGER NOT NULL,
    message     INTEGER NOT NULL,
    PRIMARY KEY (schedule_id, nominal_at)
) STRICT, WITHOUT ROWID;

-- How often schedules were changed in a way that a leader wants to hear of.
CREATE TABLE fencepost_schedule_change (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    changes INTEGER NOT NULL
) STRICT;

INSERT INTO fencepost_schedule_change (one, changes) VALUES (1, 0);
