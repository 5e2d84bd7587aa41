-- What operators and maintenance do to leases.

-- Who has a lease's row locked: the backends of the transactions that stand in the row's xmax. A savepoint's number belongs to no
-- backend once it was released; then whoever has rows of leases locked since before is named, which may be one too many.
create or replace function fencepost._lease_lockers(lease_id bigint) returns integer[]
language plpgsql
as $$
declare
    holder xid := (select l.xmax from fencepost.lease l where l.id = _lease_lockers.lease_id);
    members bigint[] := array[holder::text::bigint];
begin
    begin
        -- One locker stands in the row itself, several in a list of their own; the number does not tell which it is.
        members := members || array(select m.xid::text::bigint from pg_get_multixact_members(holder) m);
    exception when others then
        null;
    end;
    return array(
        select l.pid
        from pg_locks l
        where l.locktype = 'transactionid' and l.granted and l.transactionid::text::bigint = any(members) and l.pid <> pg_backend_pid()
        union
        select r.pid
        from unnest(members) m
        join pg_locks l on l.locktype = 'transactionid' and l.granted and l.transactionid::text::bigint < m
        join pg_locks r on r.pid = l.pid and r.relation = 'fencepost.lease'::regclass and r.mode = 'RowShareLock'
        where l.pid <> pg_backend_pid()
            and not exists (select from pg_locks o where o.locktype = 'transactionid' and o.transactionid::text::bigint = m));
end
$$;

-- Takes a lease from whoever holds it: the epoch rises, the lease is free, and the reason is kept. Returns the new epoch. A name that
-- nobody ever acquired gets its first epoch.
-- Locks: the lease's row FOR UPDATE; raises `busy` with the pids after 0.9 s when guards or others have it locked.
create or replace function fencepost.lease_force_release(name text, reason text) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
set lock_timeout = '900ms'
as $$
declare
    found_id bigint;
    state fencepost._lease_state;
    next_epoch bigint;
    -- First, since a new one makes epochs jump over those that were lost with the old one.
    generation_now integer := fencepost._generation();
    pids integer[];
begin
    perform fencepost._read_committed('release a lease by force');
    perform fencepost._name('a lease name', name), fencepost._name('a reason', reason);
    begin
        if not exists (select from fencepost.lease l where l.name = lease_force_release.name) then
            -- As an acquire does, so that none waits for the row of a transaction that goes on.
            perform pg_advisory_xact_lock(fencepost._topic_hash('lease/' || name));
            insert into fencepost.lease (name) values (lease_force_release.name) on conflict do nothing;
        end if;
        select l.id into found_id from fencepost.lease l where l.name = lease_force_release.name for update;
    exception when lock_not_available then
        select l.id into found_id from fencepost.lease l where l.name = lease_force_release.name;
        pids := fencepost._lease_lockers(found_id);
        perform fencepost._refuse('busy',
            format('cannot release the lease `%s` by force: it is locked by the server process %s',
                name, coalesce(nullif(array_to_string(pids, ', '), ''), 'of a transaction that has just begun')),
            jsonb_build_object('lease', name, 'pids', to_jsonb(pids)),
            'a transaction that guards by the lease is open; let it end, or end it with select pg_terminate_backend(PID)');
    end;
    if found_id is null then
        -- Forgotten right between the two statements.
        perform fencepost._refuse('busy', format('cannot release the lease `%s` by force: it was being removed', name),
            jsonb_build_object('lease', name), 'try again');
    end if;

    select * into state from fencepost._lease_state l where l.id = found_id;
    next_epoch := fencepost._epoch(state.epoch);
    perform fencepost._lease_store(found_id, state, next_epoch, generation_now);
    insert into fencepost.lease_forced (lease_id, at, epoch, from_holder, reason)
        values (found_id, fencepost._clock(), next_epoch, state.holder, lease_force_release.reason);
    delete from fencepost.lease_forced f
    where f.lease_id = found_id
        and f.id <= (select o.id from fencepost.lease_forced o where o.lease_id = found_id order by o.id desc offset 100 limit 1);
    perform fencepost._wake('lease/' || name);
    return next_epoch;
end
$$;

-- Forgets leases that have been free for 30 days: epochs are the store's, so none repeats. Returns the steps done: 0 or 1, for at most
-- 1000 leases.
-- Locks: the rows of those leases FOR UPDATE; locked ones are left for the next time.
create or replace function fencepost._forget_leases() returns bigint
language plpgsql
as $$
declare
    -- An epoch is not below the instant of its grant.
    oldest bigint := fencepost._clock_micros() - 30 * 24 * 3600 * 1000000::bigint;
    locked bigint[];
    gone bigint[];
begin
    if not exists (select from fencepost.lease_grant g where g.holder is null and g.epoch < oldest) then
        return 0;
    end if;
    locked := array(
        select l.id from fencepost.lease l
        where l.id in (select g.lease_id from fencepost.lease_grant g where g.holder is null and g.epoch < oldest limit 1000)
        for update skip locked);
    gone := array(select g.lease_id from fencepost.lease_grant g where g.lease_id = any(locked) and g.holder is null and g.epoch < oldest);
    delete from fencepost.lease_grant where lease_id = any(gone);
    delete from fencepost.lease_renewal where lease_id = any(gone);
    delete from fencepost.lease_forced where lease_id = any(gone);
    delete from fencepost.lease where id = any(gone);
    return case when cardinality(gone) > 0 then 1 else 0 end;
end
$$;
