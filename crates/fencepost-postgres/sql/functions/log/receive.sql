-- The function that receives from one queue, with nothing but static statements: {q}_receive(...), arguments as fencepost._receive has
-- them.
create or replace function fencepost._receive_function(log text, queue_id integer) returns text
language sql immutable
as $make$
select replace(replace($text$
-- The heart: hands out the open batch again, or opens a new one, or finds nothing. With `finished` it acks that batch first, in one
-- version with what follows. Its rows come in no order.
-- Locks: nothing while it finds nothing, so polls write nothing and take no transaction id; else the slot's row FOR NO KEY UPDATE.
-- INVARIANT: what was looked up before the lock counts only if the version read under the lock is the one it was looked up for.
create function {q}_receive(queue text, consumer text, slot integer, epoch bigint, most integer, finished bigint default null)
returns setof fencepost.handed
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $body$
declare
    operation text := case when finished is null then 'receive' else 'ack_receive' end;
    target fencepost.target;
    parts smallint[];
    s fencepost.slot;
    st fencepost.state_0;
    newest fencepost.state_0;
    locked boolean := finished is not null;
    -- Whether `st` has changed and is to be stored.
    changed boolean := false;
    acked integer;
    -- What a look found, under which snapshot and from where; only while nothing was set aside.
    plain boolean;
    many bigint;
    last bigint;
    segment integer;
    any_void boolean;
    rows fencepost.logged[];
    seen pg_snapshot;
    low bigint;
    high bigint;
    work fencepost.cursor;
    moment timestamptz;
    until timestamptz := clock_timestamp() + interval '2 seconds';
begin
    perform fencepost._read_committed(operation);
    if most is null or most not between 1 and 10000 then
        perform fencepost._within('max', most, 1, 10000);
    end if;
    if epoch is null or epoch not between 1 and 9007199254740991 then
        perform fencepost._presented(epoch);
    end if;
    select c.id, c.name, q.id, q.name, q.partitions, q.paused, c.slots, c.on_failure, c.max_attempts, c.max_crashes, c.backoff, c.after_id
        into target
        from fencepost.queue q join fencepost.consumer c on c.queue_id = q.id
        where q.id = {id} and c.queue_id = {id} and c.name = consumer;
    if target.queue is distinct from queue then
        -- INVARIANT: what this queue's log holds never moves the cursor of another queue's consumer.
        target := fencepost._consumer(queue, consumer);
        perform fencepost._refuse('conflict', format('cannot %s from the queue `%s` by a function of another queue', operation, queue),
            jsonb_build_object('queue', queue), 'call fencepost.receive, which finds the function of the queue');
    end if;
    if slot is null or slot < 0 or slot >= target.slots then
        perform fencepost._slot_of(target, slot);
    end if;
    if locked then
        s := fencepost._own(operation, target, slot, epoch);
    else
        select * into s from fencepost.slot x where x.consumer_id = target.id and x.slot = q{id}_receive.slot;
        if s.slot is null then
            s := fencepost._missing(target, slot);
        end if;
        if not fencepost._is_own(s, epoch) then
            perform fencepost._fenced(operation, target, s, epoch);
        end if;
    end if;
    st := fencepost._state(target.id, slot);
    if locked then
        perform fencepost._bound_transaction(st.expires_at);
        if st.batch_id = finished then
            acked := st.size;
            st := fencepost._finish(target, s, st);
            changed := true;
        elsif st.last_acked = finished then
            acked := 0;
        else
            perform fencepost._other_batch(operation, target, slot, finished, st.batch_id);
        end if;
    end if;
    loop
        moment := fencepost._clock();
        plain := false;
        if st.batch_id is not null and st.size > 0 then
            exit when fencepost._extended(s, st.expires_at) = st.expires_at;
            if locked then
                st.expires_at := fencepost._extended(s, st.expires_at);
                changed := true;
                exit;
            end if;
        elsif st.batch_id is not null then
            -- Every message of the open batch has a disposition.
            if locked then
                st := fencepost._finish(target, s, st);
                changed := true;
                continue;
            end if;
        else
            exit when target.paused;
            plain := (st.isolated).h is null and st.aside = 0;
            if plain then
                work := st.cursor;
                parts := array(select generate_series(slot, target.partitions - 1, target.slots)::smallint);
                loop
                    seen := coalesce((work).s, fencepost._snapshot());
                    select * into many, last, segment, any_void, rows from {q}_peek(parts, work, seen, most, moment, target.after_id);
                    exit when many > 0 or (work).s is null;
                    -- A pass that finds nothing more is over; what came since is looked for under a new snapshot.
                    work := row((work).h, (work).s, null, null);
                end loop;
                exit when many = 0;
                plain := not any_void;
            elsif not locked and (st.isolated).h is null then
                exit when not fencepost._has_work(target, st, moment);
            end if;
            if locked and not plain then
                newest := st;
                st := fencepost._pick(target, st, most);
                exit when st *= newest;
                changed := true;
                -- Over what is not handed out it goes on for a while, and the rest of it comes with the next call.
                continue when st.batch_id is null and clock_timestamp() < until;
                st.expires_at := fencepost._extended(s, st.expires_at);
                exit;
            end if;
        end if;
        if not locked then
            -- Something has to be written.
            s := fencepost._own(operation, target, slot, epoch);
            locked := true;
            newest := fencepost._state(target.id, slot);
            perform fencepost._bound_transaction(newest.expires_at);
            if newest.version <> st.version or not plain then
                st := newest;
                continue;
            end if;
        end if;
        st.cursor := work;
        st := fencepost._opened(st, case
            when rows is not null then fencepost._next(work, rows, seen, most)
            else row(last, seen, null, null)::fencepost.cursor end, many, true);
        st.expires_at := fencepost._extended(s, st.expires_at);
        changed := true;
        exit;
    end loop;
    if changed then
        perform fencepost._append(st);
    end if;
    if plain and st.batch_id is not null and rows is null then
        -- Read a second time, straight into the answer: to carry the messages through variables costs more.
        low := (work).h;
        high := last;
        $text$ || fencepost._by_segment(
            'return query
                select acked, st.batch_id, st.deliveries, st.crashes, m.position, m.id, m.key, m.kind, m.payload, m.headers, 1, st.deliveries, m.created_at
                from {scan} m;',
            'l.position, l.id, l.key, l.kind, l.payload, l.headers, l.created_at',
            'l.position > low and l.position <= high and pg_visible_in_snapshot(l.xid, seen)') || $text$
    elsif plain and st.batch_id is not null then
        return query
        select acked, st.batch_id, st.deliveries, st.crashes, m.position, m.id, m.key, m.kind, m.payload, m.headers,
            1, st.deliveries, m.created_at
        from unnest(rows) m;
    elsif st.batch_id is not null then
        return query
        select acked, st.batch_id, st.deliveries, st.crashes, m.position, m.id, m.key, m.kind, m.payload, m.headers,
            m.failures + 1, m.deliveries + st.deliveries, m.created_at
        from fencepost._undecided(target, st) m;
    elsif finished is not null then
        return query select acked, null::bigint, null::integer, null::integer, null::bigint, null::bigint, null::text, null::text,
            null::bytea, null::jsonb, null::integer, null::integer, null::timestamptz;
    end if;
end
$body$
$text$, '{q}', log), '{id}', queue_id::text)
$make$;
