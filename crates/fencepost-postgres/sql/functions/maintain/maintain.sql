-- What is due in the background, in steps bounded in size. Any worker runs it; call it alone, in no transaction with other work.

-- One step for one queue, whose row is locked, so that nobody else does the same; whether it did something.
create or replace function fencepost._maintain(q fencepost.queue) returns boolean
language plpgsql
as $$
begin
    return fencepost._append_due(q) or fencepost._advance(q) or fencepost._forget(q) or fencepost._turn(q);
end
$$;

-- Gives delayed messages that became due their place in the log.
create or replace function fencepost._append_due(q fencepost.queue) returns boolean
language plpgsql
as $$
declare
    -- A variable, since no index is looked up by a function that is volatile.
    moment timestamptz := fencepost._clock();
    due fencepost.delayed[];
begin
    due := array(
        select d from fencepost.delayed d where d.queue_id = q.id and d.due_at <= moment
        order by d.due_at, d.id limit 1000);
    if due = '{}' then
        return false;
    end if;
    execute 'select fencepost.q' || q.id || '_write(
            array_agg(d.id order by n), array_agg(d.payload order by n), array_agg(d.key order by n), array_agg(d.kind order by n),
            array_agg(d.headers order by n), array_agg(d.created_at order by n), array_agg(d.expires_at order by n))
        from unnest($1) with ordinality d (queue_id, id, partition, key, kind, payload, headers, created_at, expires_at, due_at, n)'
        using due;
    delete from fencepost.delayed d using unnest(due) x where d.queue_id = x.queue_id and d.id = x.id;
    return true;
end
$$;

-- Forgets idempotency keys and dead letters after their time.
create or replace function fencepost._forget(q fencepost.queue) returns boolean
language plpgsql
as $$
declare
    moment timestamptz := fencepost._clock();
    keys integer;
    letters integer;
begin
    delete from fencepost.once o where o.queue_id = q.id and o.expires_at <= moment
        and o.key in (select x.key from fencepost.once x where x.queue_id = q.id and x.expires_at <= moment limit 1000);
    get diagnostics keys = row_count;
    delete from fencepost.dead d where d.queue_id = q.id and (d.consumer, d.id) in (
        select x.consumer, x.id from fencepost.dead x
        where x.queue_id = q.id and x.died_at <= moment - interval '90 days' order by x.died_at limit 1000);
    get diagnostics letters = row_count;
    return keys + letters > 0;
end
$$;

-- Moves the end of what counts as removed over what every consumer has acked past and whose time is over, from the beginning of the log, so
-- that what is left has no holes. While nobody consumes, over what is too old or too much.
create or replace function fencepost._advance(q fencepost.queue) returns boolean
language plpgsql
as $$
declare
    cut bigint;
begin
    if exists (select from fencepost.consumer c where c.queue_id = q.id) then
        cut := fencepost._last_before(q, fencepost._first_unconsumed(q));
        if cut is not null and q.retain_for > interval '0' then
            cut := fencepost._last_aged(q, cut, q.retain_for, false);
        end if;
    else
        cut := greatest(fencepost._last_surplus(q), fencepost._last_aged(q, null, q.retain_unread, true));
    end if;
    if cut is null then
        return false;
    end if;
    perform setval('fencepost.q' || q.id || '_removed', cut);
    return true;
end
$$;

-- The first position that some consumer has not acked past; NULL when there is none. Found by the ends of indexes, not by reading the log.
create or replace function fencepost._first_unconsumed(q fencepost.queue) returns bigint
language plpgsql volatile
as $$
declare
    s record;
    acked fencepost.cursor;
    first bigint;
    own bigint;
begin
    for s in
        select x.consumer_id, x.slot, c.slots from fencepost.consumer c join fencepost.slot x on x.consumer_id = c.id where c.queue_id = q.id
    loop
        acked := (fencepost._state(s.consumer_id, s.slot)).cursor;
        execute replace('
            select least(
                (select min(position) from unnest({q}_late($1, row($2, ($3).b, null, null), fencepost._snapshot(), null)) l
                    where not fencepost._in($3, l.position, l.xid)),
                (select min(least(
                        (select min(position) from {q}_0 where partition = p and position > $2),
                        (select min(position) from {q}_1 where partition = p and position > $2),
                        (select min(position) from {q}_2 where partition = p and position > $2)))
                    from unnest($1) p))',
            '{q}', 'fencepost.q' || q.id) into own using fencepost._share(s.slot, s.slots, q.partitions), (acked).h, acked;
        first := least(first, own);
    end loop;
    return first;
end
$$;

-- The last position that is stored before another one, or at all; NULL when none is that does not count as removed.
create or replace function fencepost._last_before(q fencepost.queue, upto bigint) returns bigint
language plpgsql volatile
as $$
declare
    last bigint;
begin
    execute replace('
        select max(greatest(
                (select max(position) from {q}_0 where partition = p and position > $2 and position < $3),
                (select max(position) from {q}_1 where partition = p and position > $2 and position < $3),
                (select max(position) from {q}_2 where partition = p and position > $2 and position < $3)))
        from unnest($1) p',
        '{q}', 'fencepost.q' || q.id) into last
        using fencepost._share(0, 1, q.partitions), fencepost._removed(q.id), coalesce(upto, 9223372036854775807);
    return last;
end
$$;

-- The last position, not above `upto`, up to which every message was sent `age` ago; NULL when the first one is younger. With `held` a
-- message that was held back goes with the next ordinary one: its own age counts from long before it came. At most 1,000 a call.
create or replace function fencepost._last_aged(q fencepost.queue, upto bigint, age interval, held boolean) returns bigint
language plpgsql volatile
as $$
declare
    since timestamptz := fencepost._clock() - age;
    last bigint;
    l fencepost.logged;
begin
    for l.position, l.id, l.created_at in execute replace('
        select m.* from unnest($1) p cross join lateral (
            select position, id, created_at from {q}_0 where partition = p and position > $2 and position <= $3
            union all select position, id, created_at from {q}_1 where partition = p and position > $2 and position <= $3
            union all select position, id, created_at from {q}_2 where partition = p and position > $2 and position <= $3
            order by position limit 1000) m
        order by position limit 1000',
        '{q}', 'fencepost.q' || q.id) using fencepost._share(0, 1, q.partitions), fencepost._removed(q.id), coalesce(upto, 9223372036854775807)
    loop
        if l.created_at <= since and not (held and l.id <> l.position) then
            last := l.position;
        elsif not (held and l.id <> l.position) then
            exit;
        end if;
    end loop;
    return last;
end
$$;

-- The last position beyond the latest `retain_unread_bytes` of payloads; NULL when all fit. Payloads are added up only when the tables,
-- which may hold them compressed, are at least an eighth as large.
create or replace function fencepost._last_surplus(q fencepost.queue) returns bigint
language plpgsql volatile
as $$
declare
    log text := 'fencepost.q' || q.id;
    last bigint;
begin
    if pg_table_size(log || '_0') + pg_table_size(log || '_1') + pg_table_size(log || '_2') < q.retain_unread_bytes / 8 then
        return null;
    end if;
    execute replace('
        select max(position) from (
            select position, sum(octet_length(payload)) over (order by position desc) as bytes from (
                select position, payload from {q}_0 where position > $1
                union all select position, payload from {q}_1 where position > $1
                union all select position, payload from {q}_2 where position > $1) l) s
        where bytes > $2', '{q}', log) into last using fencepost._removed(q.id), q.retain_unread_bytes;
    return last;
end
$$;

-- A queue with its row locked, or nothing when it is dropped. Another who maintains it, or who makes a consumer, is waited for when this
-- queue was asked for; among all queues it is passed over.
-- INVARIANT: between what is judged to be behind all consumers and its removal no consumer begins.
create or replace function fencepost._to_maintain(queue_id integer, waits boolean) returns fencepost.queue
language plpgsql
as $$
declare
    q fencepost.queue;
begin
    if waits then
        select * into q from fencepost.queue x where x.id = queue_id for no key update;
    else
        select * into q from fencepost.queue x where x.id = queue_id for no key update skip locked;
    end if;
    return q;
end
$$;

-- Does what is due for one queue, or for all, and returns how many steps did something. A call is one transaction that others wait for:
-- what takes more than a second is left to the next call, except for one step of each queue.
create or replace function fencepost._any_maintain(queue text default null) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    steps bigint := 0;
    queue_id integer;
    q fencepost.queue;
    -- Real time: the engine's clock may stand still in tests.
    until timestamptz := clock_timestamp() + interval '1 second';
begin
    perform fencepost._read_committed('maintain');
    -- What counts as removed is never taken back, so it must not rest on an ack that may be rolled back.
    if pg_current_xact_id_if_assigned() is not null then
        perform fencepost._refuse('unsupported', 'cannot maintain in a transaction that has written something', '{}',
            'call it in a transaction of its own');
    end if;
    if queue is not null then
        perform fencepost._queue(queue);
    end if;
    for queue_id in select x.id from fencepost.queue x where _any_maintain.queue is null or x.name = _any_maintain.queue order by x.id loop
        loop
            q := fencepost._to_maintain(queue_id, queue is not null);
            exit when q.id is null or not fencepost._maintain(q);
            steps := steps + 1;
            exit when clock_timestamp() > until;
        end loop;
    end loop;
    if queue is null then
        steps := steps + fencepost._forget_leases();
        while fencepost._forget_notices(1000) > 0 loop
            steps := steps + 1;
            exit when clock_timestamp() > until;
        end loop;
    end if;
    -- At the end, and of one queue, since the locks of what is emptied last until the commit.
    for queue_id in select x.id from fencepost.queue x where _any_maintain.queue is null or x.name = _any_maintain.queue order by x.id loop
        q := fencepost._to_maintain(queue_id, queue is not null);
        if q.id is not null and fencepost._empty(q) then
            return steps + 1;
        end if;
    end loop;
    return steps + fencepost._turn_states()::integer;
end
$$;
