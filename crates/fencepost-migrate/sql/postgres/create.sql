-- Makes the two tables of a ledger. Runs in a transaction of its own, under the migration lock. Returns nothing.
-- Locks: none but its own tables'. Invariant: both are there or neither.
create table {ledger} (
    number bigint not null primary key,
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
    started_at timestamptz not null,
    finished_at timestamptz,
    milliseconds bigint,
    tool text not null
);
create table {history} (
    id bigint generated always as identity primary key,
    format integer not null,
    action text not null,
    number bigint,
    reason text,
    before text,
    role text not null,
    runner text not null,
    at timestamptz not null,
    tool text not null
);
