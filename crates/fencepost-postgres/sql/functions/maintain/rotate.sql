-- Rotation: consumed storage goes by emptying whole tables, never row by row.

-- How large a table gets before the next one is begun, and how small it may stay whatever its age.
create or replace function fencepost._is_full(size bigint, since timestamptz) returns boolean
language sql volatile
as $$ select size >= 67108864 or (size >= 1048576 and since + interval '60 seconds' <= fencepost._clock()) $$;

-- Begins the next segment of a log when the current one is full and the next one is empty. Senders who looked a moment earlier may still
-- write into the old one; readers look at all of them.
create or replace function fencepost._turn(q fencepost.queue) returns boolean
language plpgsql
as $$
declare
    log text := 'fencepost.q' || q.id;
    current bigint;
    is_empty boolean;
begin
    execute 'select last_value from ' || log || '_turn' into current;
    if not fencepost._is_full(pg_relation_size(log || '_' || current % 3), q.turned_at) then
        return false;
    end if;
    execute format('select not exists (select from %s_%s)', log, (current + 1) % 3) into is_empty;
    if not is_empty then
        return false;
    end if;
    update fencepost.queue x set turned_at = fencepost._clock() where x.id = q.id;
    perform nextval(log || '_turn');
    return true;
end
$$;

-- Empties the segments of a log that hold nothing that anybody is still to be given. True when there was one.
-- Locks: such a segment ACCESS EXCLUSIVE, and only if nobody has it locked at all: a waiting TRUNCATE would hold up the senders.
-- INVARIANT: judged again under the lock, when no transaction has undecided rows in the segment.
create or replace function fencepost._empty(q fencepost.queue) returns boolean
language plpgsql
as $$
declare
    log text := 'fencepost.q' || q.id;
    current bigint;
    emptied boolean := false;
begin
    execute 'select last_value from ' || log || '_turn' into current;
    for segment in 0..2 loop
        if segment <> current % 3 and fencepost._is_behind_all(q, segment) then
            begin
                execute format('lock table %s_%s in access exclusive mode nowait', log, segment);
                if fencepost._is_behind_all(q, segment) then
                    execute format('truncate %s_%s', log, segment);
                    emptied := true;
                end if;
            exception when lock_not_available then
                null;
            end;
        end if;
    end loop;
    return emptied;
end
$$;

-- Whether a segment has rows, and all of them are removed by rule and behind the acked cursor of every slot of every consumer.
create or replace function fencepost._is_behind_all(q fencepost.queue, segment integer) returns boolean
language plpgsql volatile
as $$
declare
    log text := 'fencepost.q' || q.id;
    has_rows boolean;
    pinned boolean;
    st fencepost.state_0;
    s record;
    -- Under which every row counts as finished. Under the lock each one is, or is the caller's own, and neither may go.
    every pg_snapshot := '9223372036854775807:9223372036854775807:';
begin
    execute format('select exists (select from %s_%s)', log, segment) into has_rows;
    if not has_rows then
        return false;
    end if;
    execute 'select ' || log || '_fresh($1, $2, 9223372036854775807, $4, 1, $3) <> ''{}'''
        into pinned using fencepost._share(0, 1, q.partitions), fencepost._removed(q.id), segment, every;
    if pinned then
        return false;
    end if;
    for s in
        select c.slots, x.consumer_id, x.slot from fencepost.consumer c join fencepost.slot x on x.consumer_id = c.id where c.queue_id = q.id
    loop
        st := fencepost._state(s.consumer_id, s.slot);
        execute 'select ' || log || '_late($1, $2, $5, 1, $3) <> ''{}''
            or ' || log || '_fresh($1, $4, 9223372036854775807, $5, 1, $3) <> ''{}'''
            into pinned using fencepost._share(s.slot, s.slots, q.partitions), row((st.cursor).h, (st.cursor).b, null, null)::fencepost.cursor,
                segment, (st.cursor).h, every;
        if pinned then
            return false;
        end if;
    end loop;
    return true;
end
$$;

-- Lets the two tables of slot states take turns: when the current one has 32 MiB, and the other one is empty, it becomes the current one;
-- slots whose newest version is in the other one are carried over; then that one is emptied. One of these a call.
-- Locks: the rows of the slots that it carries over, if they are free; the table that it empties, if nobody has it locked.
create or replace function fencepost._turn_states() returns boolean
language plpgsql
as $$
declare
    current bigint := (select last_value % 2 from fencepost.state_turn);
    other text := 'fencepost.state_' || 1 - current;
    other_has_rows boolean;
    behind boolean;
    s fencepost.slot;
begin
    execute format('select exists (select from %s)', other) into other_has_rows;
    if not other_has_rows then
        if pg_relation_size('fencepost.state_' || current) >= 33554432 then
            perform nextval('fencepost.state_turn');
            return true;
        end if;
        return false;
    end if;
    for s in execute format('
        select x.* from fencepost.slot x
        where not exists (select from fencepost.state_%s v where v.consumer_id = x.consumer_id and v.slot = x.slot)
        order by x.consumer_id, x.slot for no key update skip locked', current)
    loop
        -- RACE: it may have moved on between the look and the lock; once more does no harm.
        perform fencepost._append(fencepost._state(s.consumer_id, s.slot));
    end loop;
    begin
        execute format('lock table %s in access exclusive mode nowait', other);
        -- INVARIANT: no slot's newest version goes. A slot that was locked just now keeps the table for the next time.
        execute format('
            select exists (select from fencepost.slot x where not exists (
                select from fencepost.state_%s v where v.consumer_id = x.consumer_id and v.slot = x.slot))', current) into behind;
        if behind then
            return false;
        end if;
        execute format('truncate %s', other);
        return true;
    exception when lock_not_available then
        return false;
    end;
end
$$;
