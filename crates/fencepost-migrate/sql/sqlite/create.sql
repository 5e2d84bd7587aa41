-- Makes the two tables of a ledger, in one transaction. Returns nothing. Locks: the file's write lock.
-- Invariant: both are there or neither. Times are microseconds since 1970 by the host's clock.
create table {ledger} (
    number integer not null primary key,
    name text not null,
    state text not null check (state in ('running', 'applied', 'failed', 'baselined', 'imported')),
    text_hash text not null,
    layout_hash text not null,
    token_hash text not null,
    statements integer not null,
    done integer not null check (done between 0 and statements),
    done_hash text not null,
    failed_statement integer,
    sqlstate text,
    message text,
    role text not null,
    runner text not null,
    started_at integer not null,
    finished_at integer,
    milliseconds integer,
    tool text not null
) strict;
create table {history} (
    id integer not null primary key,
    format integer not null,
    action text not null,
    number integer,
    reason text,
    before text,
    role text not null,
    runner text not null,
    at integer not null,
    tool text not null
) strict;
