-- What an acquire answers to a state without changing it; NULL when the lease is to be granted: it is free or expired.
create or replace function fencepost._lease_answer(state fencepost._lease_state, nonce text, generation integer)
returns fencepost.lease_acquired
language plpgsql
as $$
declare
    at timestamptz := fencepost._clock();
begin
    if state.holder is null then
        return null;
    end if;
    if state.generation <> generation then
        -- INVARIANT: the lost timeline may have renewed the lease right before it was lost, and its holder still believes in it.
        if at < (select g.seen_at from fencepost.generation g where g.id = _lease_answer.generation)
            + state.ttl + interval '1 second' then
            return row('contended', false, null, null, null, null, at, false)::fencepost.lease_acquired;
        end if;
        return null;
    end if;
    if at >= state.expires_at then
        return null;
    end if;
    if state.nonce = nonce then
        return row('granted', true, state.epoch, state.holder, state.expires_at, state.since, at, false)::fencepost.lease_acquired;
    end if;
    return row('held', false, state.epoch, state.holder, state.expires_at, state.since, at, false)::fencepost.lease_acquired;
end
$$;

-- Acquires a lease that is free or expired, or finds the live grant of the same nonce again. One row: granted, held or contended.
-- Locks: the lease's row FOR UPDATE, skipped when it is locked, so it never waits; a live lease is answered without any lock.
-- INVARIANT: the state that is judged is read after the lock, in a later statement, and so is the clock.
create or replace function fencepost._any_lease_acquire(name text, holder text, ttl interval, nonce text default null)
returns fencepost.lease_acquired
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    generation_now integer;
    lease_id bigint;
    state fencepost._lease_state;
    answer fencepost.lease_acquired;
    next_epoch bigint;
    at timestamptz;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform fencepost._read_committed('acquire a lease');
    end if;
    if not fencepost._are_plain(name, holder, nonce) then
        perform fencepost._name('a lease name', name), fencepost._name('a holder name', holder), fencepost._name('a nonce', coalesce(nonce, 'none'));
    end if;
    ttl := fencepost._ttl(ttl);
    generation_now := fencepost._generation();

    select * into state from fencepost._lease_state l where l.name = _any_lease_acquire.name;
    answer := fencepost._lease_answer(state, nonce, generation_now);
    if answer.outcome is not null then
        return answer;
    end if;

    lease_id := fencepost._lease_lock_now(name);
    if lease_id is null then
        return row('contended', false, null, null, null, null, fencepost._clock(), false)::fencepost.lease_acquired;
    end if;
    select * into state from fencepost._lease_state l where l.id = lease_id;
    answer := fencepost._lease_answer(state, nonce, generation_now);
    if answer.outcome is not null then
        return answer;
    end if;
    next_epoch := fencepost._epoch(state.epoch);
    at := fencepost._clock();
    perform fencepost._lease_store(lease_id, state, next_epoch, generation_now, holder, nonce, ttl, at);
    return row('granted', true, next_epoch, holder, at + ttl, at, at, true)::fencepost.lease_acquired;
end
$$;
