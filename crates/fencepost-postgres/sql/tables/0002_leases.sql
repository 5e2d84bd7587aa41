-- Leases. The row that is locked and the state that is judged are apart, so that a lock never meets a row that was replaced.

-- A lease's identity: only ever locked, never updated.
create table fencepost.lease (
    id   bigint generated always as identity primary key,
    name text   not null collate "C" unique
);

-- Who was granted a lease last; one row a lease, replaced by every change of ownership. `holder` is NULL while it is free.
create table fencepost.lease_grant (
    lease_id   bigint      not null,
    term       bigint      not null,
    epoch      bigint      not null,
    generation integer     not null,
    holder     text,
    nonce      text,
    ttl        interval,
    since      timestamptz,
    expires_at timestamptz
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);

-- How far the grant of that epoch was extended; one row a lease once it was renewed, replaced by every renewal. Apart from the
-- grant, so that a transaction that guards at REPEATABLE READ is disturbed by a takeover alone.
create table fencepost.lease_renewal (
    lease_id   bigint      not null,
    version    bigint      not null,
    epoch      bigint      not null,
    ttl        interval    not null,
    expires_at timestamptz not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);

-- INVARIANT: the number that rises with every replacement is in the index and is read from its upper end. While some old snapshot
-- keeps replaced rows alive, a look at a lease still meets its newest row first, however many there are behind it.
-- Not unique: then replacing a row takes no lock that a guard's FOR KEY SHARE would make wait.
create index lease_grant_newest on fencepost.lease_grant (lease_id, term);
create index lease_renewal_newest on fencepost.lease_renewal (lease_id, version);

-- What operators took by force.
create table fencepost.lease_forced (
    id          bigint      generated always as identity primary key,
    lease_id    bigint      not null,
    at          timestamptz not null,
    epoch       bigint      not null,
    from_holder text,
    reason      text        not null
);
create index lease_forced_lease on fencepost.lease_forced (lease_id, id);

-- What lease_acquire answers. `at` is the instant by the engine's clock at which it was judged; `is_new` is false for a grant that
-- was stored before, and found again by its nonce.
create type fencepost.lease_acquired as (
    outcome    text,
    granted    boolean,
    epoch      bigint,
    holder     text,
    expires_at timestamptz,
    since      timestamptz,
    at         timestamptz,
    is_new     boolean
);
