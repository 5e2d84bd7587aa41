-- Hands dead letters to their consumer once more, all or those named, as if they had never failed; messages of one key in their order.
-- Returns how many. One that is to come anyway is only forgotten as dead; one that the consumer would pass over stays dead.
-- Locks: the rows of the slots concerned, in order, so that no receive moves their cursors meanwhile.
create or replace function fencepost.dead_replay(queue text, consumer text, message_ids bigint[] default null) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    target fencepost.target;
    letter fencepost.dead;
    l fencepost.logged;
    st fencepost.state_0;
    replayed integer := 0;
    moment timestamptz := fencepost._clock();
    -- How many of each slot.
    added integer[];
begin
    perform fencepost._read_committed('dead_replay');
    target := fencepost._consumer(queue, consumer);
    added := array_fill(0, array[target.slots]);
    perform from fencepost.slot x where x.consumer_id = target.id order by x.slot for no key update;
    for letter in
        select * from fencepost.dead d
        where d.queue_id = target.queue_id and d.consumer = target.name and (message_ids is null or d.id = any(message_ids))
        order by d.position for update
    loop
        st := fencepost._state(target.id, letter.partition % target.slots);
        execute replace('
            select position, expires_at, xid from (
                select position, expires_at, xid from {q}_0 where partition = $1 and position = $2
                union all select position, expires_at, xid from {q}_1 where partition = $1 and position = $2
                union all select position, expires_at, xid from {q}_2 where partition = $1 and position = $2) l',
            '{q}', 'fencepost.q' || target.queue_id) into l.position, l.expires_at, l.xid using letter.partition, letter.position;
        if l.position is not null and not fencepost._in(st.cursor, l.position, l.xid) then
            continue when l.expires_at <= fencepost._clock() or letter.id <= target.after_id;
        elsif not exists (select from fencepost.aside a where a.consumer_id = target.id and a.position = letter.position) then
            insert into fencepost.aside (consumer_id, position, id, partition, key, kind, payload, headers, created_at, place, due_at)
            values (target.id, letter.position, letter.id, letter.partition, letter.key, letter.kind, letter.payload, letter.headers,
                letter.created_at,
                case when fencepost._waits(target, letter.position, letter.key) then 'parked' else 'due' end, moment);
            added[st.slot + 1] := added[st.slot + 1] + 1;
        end if;
        delete from fencepost.dead d where d.queue_id = letter.queue_id and d.consumer = letter.consumer and d.id = letter.id;
        replayed := replayed + 1;
    end loop;
    if replayed > 0 then
        -- So that an ack with an old snapshot, which does not see what was replayed, is told to try again.
        for slot in 0..target.slots - 1 loop
            st := fencepost._state(target.id, slot);
            st.aside := st.aside + added[slot + 1];
            st.due_from := fencepost._earlier(st.due_from, moment);
            perform fencepost._append(st);
        end loop;
        update fencepost.queue x set changes = x.changes + 1 where x.id = target.queue_id;
        perform fencepost._wake(fencepost._messages_topic(queue));
    end if;
    return replayed;
end
$$;

-- Removes dead letters for good, all or those named. Returns how many.
create or replace function fencepost.dead_purge(queue text, consumer text, message_ids bigint[] default null) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    q fencepost.queue := fencepost._queue(queue);
    purged integer;
begin
    perform fencepost._name('a consumer name', consumer);
    delete from fencepost.dead d
        where d.queue_id = q.id and d.consumer = dead_purge.consumer and (message_ids is null or d.id = any(message_ids));
    get diagnostics purged = row_count;
    return purged;
end
$$;

-- The dead letters of a consumer by id, at most `most`, from the first id after `after` on.
create or replace function fencepost._any_dead_letters(queue text, consumer text, after bigint, most bigint) returns setof fencepost.dead
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    q fencepost.queue := fencepost._queue(queue);
begin
    return query select * from fencepost.dead d
        where d.queue_id = q.id and d.consumer = _any_dead_letters.consumer and d.id > coalesce(after, 0) order by d.id limit most;
end
$$;
