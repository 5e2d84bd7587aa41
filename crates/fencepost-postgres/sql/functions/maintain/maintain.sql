-- What is due in the background, in steps bounded in size. Any worker runs it; call it alone, in no transaction with other work.

-- One step for one queue; whether it did something.
create or replace function fencepost._maintain(q fencepost.queue) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return fencepost._append_due(q) or fencepost._advance(q) or fencepost._forget(q) or fencepost._turn(q);
end
$$;

-- Gives delayed messages that became due their place in the log. Two that come at the same moment share the work.
create or replace function fencepost._append_due(q fencepost.queue) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    due fencepost.delayed[];
begin
    due := array(
        select d from fencepost.delayed d where d.queue_id = q.id and d.due_at <= fencepost._clock()
        order by d.due_at, d.id limit 1000 for update skip locked);
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
set search_path = pg_catalog, pg_temp
as $$
declare
    keys integer;
    letters integer;
begin
    delete from fencepost.once o where o.queue_id = q.id and o.expires_at <= fencepost._clock()
        and o.key in (select x.key from fencepost.once x where x.queue_id = q.id and x.expires_at <= fencepost._clock() limit 1000);
    get diagnostics keys = row_count;
    delete from fencepost.dead d where d.queue_id = q.id and d.died_at + interval '90 days' <= fencepost._clock();
    get diagnostics letters = row_count;
    return keys + letters > 0;
end
$$;

-- Moves the end of what counts as removed over what every consumer has acked past and whose time is over, from the beginning of the log, so
-- that what is left has no holes. While nobody consumes, over what is too old or too much. At most 1,000 messages a step.
create or replace function fencepost._advance(q fencepost.queue) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    first fencepost.logged[];
    l fencepost.logged;
    states fencepost.state_0[];
    counts integer[];
    moment timestamptz := fencepost._clock();
    cut bigint := 0;
    kept_from bigint;
    done boolean;
begin
    execute 'select fencepost.q' || q.id || '_fresh($1, $2, 9223372036854775807, pg_current_snapshot(), 1000)'
        into first using fencepost._share(0, 1, q.partitions), q.gone;
    if first = '{}' then
        return false;
    end if;
    counts := array(select c.slots::integer from fencepost.consumer c where c.queue_id = q.id order by c.id);
    if counts = '{}' then
        kept_from := fencepost._kept_from(q);
        -- One that was held back goes with the next ordinary one: its own age counts from long before it came.
        foreach l in array first loop
            if l.position <= kept_from or (l.id = l.position and l.created_at + q.retain_unread <= moment) then
                cut := l.position;
            elsif l.id = l.position then
                exit;
            end if;
        end loop;
    else
        states := array(
            select fencepost._state(c.id, n.slot) from fencepost.consumer c cross join lateral generate_series(0, c.slots - 1) n (slot)
            where c.queue_id = q.id order by c.id, n.slot);
        foreach l in array first loop
            select bool_and(fencepost._in(x.cursor, l.position, l.xid)) into done
                from unnest(states) x join fencepost.consumer c on c.id = x.consumer_id
                where x.slot = l.partition % c.slots;
            exit when not done or l.created_at + q.retain_for > moment;
            cut := l.position;
        end loop;
    end if;
    if cut = 0 then
        return false;
    end if;
    update fencepost.queue x set gone = cut where x.id = q.id and x.gone < cut;
    return found;
end
$$;

-- The highest position beyond the latest `retain_unread_bytes` of payloads.
create or replace function fencepost._kept_from(q fencepost.queue) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    kept_from bigint;
begin
    execute replace('
        select max(position) from (
            select position, sum(octet_length(payload)) over (order by position desc) as bytes from (
                select position, payload from {q}_0 where position > $1
                union all select position, payload from {q}_1 where position > $1
                union all select position, payload from {q}_2 where position > $1) l) s
        where bytes > $2', '{q}', 'fencepost.q' || q.id) into kept_from using q.gone, q.retain_unread_bytes;
    return coalesce(kept_from, 0);
end
$$;

-- Keeps a queue from being dropped before this transaction ends. False when somebody drops it at this moment, or has.
-- Locks: an advisory one, as maintenance that finds nothing to do writes nothing.
create or replace function fencepost._keep(queue text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from fencepost.queue q where q.name = queue and pg_try_advisory_xact_lock_shared(hashtextextended('fencepost.queue', q.id));
    -- Again, now that it is kept.
    return found and exists (select from fencepost.queue q where q.name = queue);
end
$$;

-- Does what is due for one queue, or for all, and returns how many steps did something.
create or replace function fencepost.maintain(queue text default null) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    steps bigint := 0;
    name text;
    kept text[] := '{}';
begin
    perform fencepost._read_committed('maintain');
    if queue is not null then
        perform fencepost._queue(queue);
    end if;
    for name in select q.name from fencepost.queue q where maintain.queue is null or q.name = maintain.queue order by q.id loop
        continue when not fencepost._keep(name);
        kept := kept || name;
        while steps < 1000 and fencepost._maintain(fencepost._queue(name)) loop
            steps := steps + 1;
        end loop;
    end loop;
    -- At the end, since the locks of what is emptied last until the commit.
    foreach name in array kept loop
        steps := steps + fencepost._empty(fencepost._queue(name))::integer;
    end loop;
    if queue is null then
        steps := steps + (fencepost._forget_leases() > 0)::integer + fencepost._turn_states()::integer;
    end if;
    return steps;
end
$$;
