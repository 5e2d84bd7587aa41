-- Loaded before the functions beside it, which take its row as a type.
-- How every lease stands: its identity with the newest grant and what that was extended to. One row a lease that was ever granted.
-- Locks: none. Functions that read it switch sequential and bitmap scans off: a plan that begins anywhere but at the newest row reads
-- whatever an old snapshot keeps. Read it in a later statement than the one that locked the identity's row.
create or replace view fencepost._lease_state as
    select
        l.id,
        l.name,
        g.term,
        g.epoch,
        g.generation,
        g.holder,
        g.nonce,
        case when r.epoch = g.epoch then r.ttl else g.ttl end as ttl,
        g.since,
        case when r.epoch = g.epoch then r.expires_at else g.expires_at end as expires_at
    from fencepost.lease l
    cross join lateral (
        select * from fencepost.lease_grant where lease_id = l.id order by term desc limit 1
    ) g
    left join lateral (
        select * from fencepost.lease_renewal where lease_id = l.id order by version desc limit 1
    ) r on true;

-- How leases stand, for people.
create or replace view fencepost.lease_status with (security_barrier) as
    select
        name,
        case
            when holder is null then 'free'
            when fencepost._clock() < expires_at then 'held'
            else 'expired'
        end as state,
        holder,
        epoch,
        since,
        expires_at
    from fencepost._lease_state
    where fencepost._may_hold(name)
    order by name;

-- One lease, or all of them by name, with what clients need beside the view.
create or replace function fencepost._any_lease_states(of text default null)
returns table (name text, epoch bigint, holder text, nonce text, ttl_micros bigint, since timestamptz, expires_at timestamptz)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
    select l.name, l.epoch, l.holder, l.nonce, (extract(epoch from l.ttl) * 1000000)::bigint, l.since, l.expires_at
    from fencepost._lease_state l
    where l.name = of or of is null
    order by l.name
$$;

-- What operators did to a lease, oldest first.
create or replace function fencepost._any_lease_history(of text)
returns table (at timestamptz, epoch bigint, from_holder text, reason text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
    select f.at, f.epoch, f.from_holder, f.reason
    from fencepost.lease_forced f join fencepost.lease l on l.id = f.lease_id
    where l.name = of
    order by f.id
$$;

-- How a lease stands for who sleeps on it: the epoch at which it was last free, as far as that can be told; quiet while it is held.
-- That a free lease was acquired is nothing to wait for, so a held one has no mark.
create or replace function fencepost._lease_mark(of text) returns table (mark bigint, quiet boolean)
language sql stable
as $$ select case when l.holder is null then l.epoch end, l.holder is not null from fencepost._lease_state l where l.name = of $$;
