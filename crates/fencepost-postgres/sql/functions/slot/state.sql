-- The newest version of a slot's state. The table whose turn it is is looked at first.
-- The planner is pinned: a plan made while the tables were empty would stay a sequential scan for the session.
-- Read it after the slot's row was locked, in a later statement, when something is to be judged by it.
create or replace function fencepost._state(consumer_id integer, slot integer) returns fencepost.state_0
language plpgsql volatile
as $$
declare
    turn bigint := pg_sequence_last_value('fencepost.state_turn');
    newest fencepost.state_0;
begin
    -- RACE: without the slot's lock it may be carried over between the first look and the second, so there is a third one.
    for look in turn..turn + 2 loop
        if look % 2 = 0 then
            select * into newest from fencepost.state_0 s
                where s.consumer_id = _state.consumer_id and s.slot = _state.slot order by s.version desc limit 1;
        else
            select * into newest from fencepost.state_1 s
                where s.consumer_id = _state.consumer_id and s.slot = _state.slot order by s.version desc limit 1;
        end if;
        exit when newest.version is not null;
    end loop;
    return newest;
end
$$;

-- Appends the next version of a slot's state and returns it.
-- INVARIANT: versions of a slot are appended under its row's lock, one after the other.
create or replace function fencepost._append(st fencepost.state_0) returns fencepost.state_0
language plpgsql volatile
as $$
begin
    st.version := st.version + 1;
    if pg_sequence_last_value('fencepost.state_turn') % 2 = 0 then
        insert into fencepost.state_0 select st.*;
    else
        insert into fencepost.state_1 select st.*;
    end if;
    return st;
end
$$;

-- The newest version of the state of a slot whose row is locked, for a caller at any isolation level. One whose statements all see an
-- old snapshot is told to try again when that does not hold the newest version: a version that it does not see has the next key.
create or replace function fencepost._locked_state(consumer_id integer, slot integer) returns fencepost.state_0
language plpgsql volatile
as $$
declare
    st fencepost.state_0 := fencepost._state(consumer_id, slot);
begin
    if current_setting('transaction_isolation') in ('read committed', 'read uncommitted') then
        return st;
    end if;
    -- A table that was emptied since is empty at every snapshot.
    if st.version is null then
        perform fencepost._moved_on();
    end if;
    -- RACE: the turn may have changed since the snapshot, so both tables are tried.
    begin
        insert into fencepost.state_0 (consumer_id, slot, version, cursor) values (consumer_id, slot, st.version + 1, st.cursor);
        insert into fencepost.state_1 (consumer_id, slot, version, cursor) values (consumer_id, slot, st.version + 1, st.cursor);
        raise exception using errcode = 'ZF000';
    exception
        when sqlstate 'ZF000' then
            return st;
        when unique_violation then
            perform fencepost._moved_on();
    end;
end
$$;

-- Tells a caller whose statements all see an old snapshot to try again.
create or replace function fencepost._moved_on() returns void
language plpgsql
as $$
begin
    raise exception using errcode = 'serialization_failure',
        message = 'could not serialize access: the slot has moved on since this transaction began',
        hint = 'roll back and try again';
end
$$;

-- Whether an epoch is the current owner's.
create or replace function fencepost._is_own(s fencepost.slot, epoch bigint) returns boolean
language sql volatile
as $$ select (s).worker is not null and (s).epoch = epoch and (s).generation = fencepost._generation() $$;

-- The error `fenced`.
create or replace function fencepost._fenced(operation text, target fencepost.target, s fencepost.slot, presented bigint) returns void
language plpgsql volatile
as $$
declare
    named text := (target).queue || '/' || (target).name;
    current text := case when (s).worker is not null then (s).epoch::text else '"none"' end;
    st fencepost.state_0 := fencepost._state((target).id, (s).slot);
begin
    perform fencepost._refuse('fenced',
        format('cannot %s on slot %s of consumer `%s`: epoch `%s` is not its owner''s, the current one is `%s`',
            operation, (s).slot, named, presented, trim('"' from current)),
        jsonb_build_object('presented_epoch', presented, 'current_epoch', current::jsonb, 'consumer', named, 'slot', (s).slot,
            'holder', (s).worker, 'expires_at', st.expires_at, 'open_batch_id', st.batch_id),
        'the slot was granted to somebody else or given back; drop what this owner was doing and claim again');
end
$$;

-- A slot whose row went after its consumer was looked up: `not_found`, or nobody's when the consumer was made again.
create or replace function fencepost._missing(target fencepost.target, slot integer) returns fencepost.slot
language plpgsql volatile
as $$
begin
    perform fencepost._consumer((target).queue, (target).name);
    return row((target).id, slot, null, null, null, null, null)::fencepost.slot;
end
$$;

-- Locks a slot's row as its owner and returns it, or raises `fenced`.
-- Locks: FOR NO KEY UPDATE, so a guard does not stand in the way and a takeover waits.
create or replace function fencepost._own(operation text, target fencepost.target, slot integer, epoch bigint) returns fencepost.slot
language plpgsql volatile
as $$
declare
    s fencepost.slot;
begin
    if epoch is null or epoch not between 1 and 9007199254740991 then
        perform fencepost._presented(epoch);
    end if;
    if slot is null or slot < 0 or slot >= (target).slots then
        perform fencepost._slot_of(target, slot);
    end if;
    select * into s from fencepost.slot x where x.consumer_id = (target).id and x.slot = _own.slot for no key update;
    if s.slot is null then
        s := fencepost._missing(target, slot);
    end if;
    if not fencepost._is_own(s, epoch) then
        perform fencepost._fenced(operation, target, s, epoch);
    end if;
    return s;
end
$$;

-- When a grant expires after a call that renews past half of its TTL.
create or replace function fencepost._extended(s fencepost.slot, expires timestamptz) returns timestamptz
language plpgsql volatile
as $$
declare
    moment timestamptz := fencepost._clock();
begin
    return case when expires - moment < s.ttl / 2 then moment + s.ttl else expires end;
end
$$;
