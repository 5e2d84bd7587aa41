-- What a holder does with a grant. "Own" is the epoch of the newest grant, under the generation of the server as it is now.

-- Whether the epoch is the holder's.
create or replace function fencepost._lease_is_own(state fencepost._lease_state, epoch bigint, generation integer) returns boolean
language sql immutable
as $$ select coalesce(state.holder is not null and state.epoch = $2 and state.generation = $3, false) $$;

-- Extends a grant by `ttl`, or by the TTL that it had; also after its expiry as long as nobody took over. False: lost.
-- Locks: the lease's row FOR NO KEY UPDATE, which goes with guards; what is lost already is answered without any lock, as it stays so.
create or replace function fencepost._any_lease_renew(name text, epoch bigint, ttl interval default null) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
set lock_timeout = '5s'
as $$
declare
    generation_now integer;
    state fencepost._lease_state;
    renewed_ttl interval;
    until timestamptz;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform fencepost._read_committed('renew a lease');
    end if;
    if not fencepost._are_plain(name) then
        perform fencepost._name('a lease name', name);
    end if;
    perform fencepost._presented(epoch);
    renewed_ttl := case when ttl is not null then fencepost._ttl(ttl) end;
    generation_now := fencepost._generation();
    select * into state from fencepost._lease_state l where l.name = _any_lease_renew.name;
    if not fencepost._lease_is_own(state, epoch, generation_now) then
        return false;
    end if;

    perform from fencepost.lease l where l.id = state.id for no key update;
    select * into state from fencepost._lease_state l where l.id = state.id;
    if not fencepost._lease_is_own(state, epoch, generation_now) then
        return false;
    end if;
    perform fencepost._durable();
    renewed_ttl := coalesce(renewed_ttl, state.ttl);
    until := fencepost._clock() + renewed_ttl;
    update fencepost.lease_renewal r
    set version = r.version + 1, epoch = _any_lease_renew.epoch, ttl = renewed_ttl, expires_at = until
    where r.lease_id = state.id
        and r.version = (select n.version from fencepost.lease_renewal n where n.lease_id = state.id order by n.version desc limit 1);
    if not found then
        insert into fencepost.lease_renewal values (state.id, 1, _any_lease_renew.epoch, renewed_ttl, until);
    end if;
    return true;
end
$$;

-- Gives a grant back; the lease is free once this commits. False: not held by this epoch, and nothing changes.
-- Locks: the lease's row FOR UPDATE, so it waits for guards, at most 5 s.
create or replace function fencepost._any_lease_release(name text, epoch bigint) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
set lock_timeout = '5s'
as $$
declare
    generation_now integer;
    state fencepost._lease_state;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform fencepost._read_committed('release a lease');
    end if;
    if not fencepost._are_plain(name) then
        perform fencepost._name('a lease name', name);
    end if;
    perform fencepost._presented(epoch);
    generation_now := fencepost._generation();
    select * into state from fencepost._lease_state l where l.name = _any_lease_release.name;
    if not fencepost._lease_is_own(state, epoch, generation_now) then
        return false;
    end if;

    perform from fencepost.lease l where l.id = state.id for update;
    select * into state from fencepost._lease_state l where l.id = state.id;
    if not fencepost._lease_is_own(state, epoch, generation_now) then
        return false;
    end if;
    perform fencepost._lease_store(state.id, state, state.epoch, state.generation);
    perform fencepost._wake('lease/' || name);
    return true;
end
$$;
