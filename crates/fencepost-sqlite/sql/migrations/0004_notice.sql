-- Notices, kept for a while for listeners in other processes.
-- Numbers rise without gaps and never repeat: rows go from the beginning, and the last one stays.
CREATE TABLE fencepost_notice (
    id      INTEGER PRIMARY KEY,
    channel TEXT    NOT NULL,
    payload TEXT    NOT NULL,
    at      INTEGER NOT NULL
) STRICT;
