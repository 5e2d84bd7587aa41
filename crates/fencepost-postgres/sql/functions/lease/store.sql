-- What a transition stores. Locks: the caller holds the lease's row FOR UPDATE and has read `state` in a later statement.

-- Replaces who is granted a lease; `holder` NULL: it is free. The first grant makes the row.
create or replace function fencepost._lease_store(lease_id bigint, state fencepost._lease_state, epoch bigint, generation integer,
    holder text default null, nonce text default null, ttl interval default null, since timestamptz default null)
returns void
language plpgsql
as $$
#variable_conflict use_variable
begin
    if state.term is null then
        insert into fencepost.lease_grant values (lease_id, 1, epoch, generation, holder, nonce, ttl, since, since + ttl);
        return;
    end if;
    update fencepost.lease_grant g
    set term = g.term + 1, epoch = _lease_store.epoch, generation = _lease_store.generation, holder = _lease_store.holder,
        nonce = _lease_store.nonce, ttl = _lease_store.ttl, since = _lease_store.since, expires_at = _lease_store.since + _lease_store.ttl
    where g.lease_id = _lease_store.lease_id and g.term = state.term;
    if not found then
        perform fencepost._refuse('internal', format('cannot change the lease `%s`: it was changed without its lock', state.name));
    end if;
end
$$;

-- The lease's row, locked FOR UPDATE or not at all; a name that has none yet gets one. NULL when somebody else has it locked.
-- INVARIANT: it never waits. A row that is being inserted can be neither seen nor skipped, so who inserts takes a lock by name first.
create or replace function fencepost._lease_lock_now(name text) returns bigint
language plpgsql
as $$
declare
    found_id bigint;
begin
    for attempt in 1..2 loop
        select l.id into found_id from fencepost.lease l where l.name = _lease_lock_now.name for update skip locked;
        if found_id is not null then
            return found_id;
        end if;
        if exists (select from fencepost.lease l where l.name = _lease_lock_now.name)
            or not pg_try_advisory_xact_lock(fencepost._topic_hash('lease/' || name)) then
            return null;
        end if;
        insert into fencepost.lease (name) values (_lease_lock_now.name) on conflict do nothing returning id into found_id;
        if found_id is not null then
            return found_id;
        end if;
    end loop;
    return null;
end
$$;
