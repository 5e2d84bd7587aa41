-- The messages of an open batch without a disposition, in position order: what the log has between the cursor and the batch's end
-- and was not set aside, and what came again with the batch.
create or replace function fencepost._undecided(target fencepost.target, st fencepost.state_0) returns setof fencepost.kept
language plpgsql volatile
as $$
begin
    if st.plain then
        return query
        select l.position, l.id, l.partition, l.key, l.kind, l.payload, l.headers, l.created_at, 0, 0, null::text
        from unnest(fencepost._look(target, st.slot, st.cursor, fencepost._end(st.next), fencepost._seen(st.next), st.size)) l;
        return;
    end if;
    return query
    select * from (
        select l.position, l.id, l.partition, l.key, l.kind, l.payload, l.headers, l.created_at, 0, 0, null::text
        from unnest(fencepost._look(target, st.slot, st.cursor, fencepost._end(st.next), fencepost._seen(st.next), 9223372036854775807)) l
        where l.position <= fencepost._end(st.next)
            and not exists (select from fencepost.aside a where a.consumer_id = (target).id and a.position = l.position offset 0)
        union all
        select a.position, a.id, a.partition, a.key, a.kind, a.payload, a.headers, a.created_at, a.failures, a.deliveries, a.place
        from fencepost._of_batch(target, st) a
        where a.place = 'batch'
    ) m order by 1;
end
$$;

-- The messages of an open batch that have a disposition, in position order.
create or replace function fencepost._decided(target fencepost.target, st fencepost.state_0) returns setof fencepost.kept
language plpgsql volatile
as $$
begin
    return query
    select a.position, a.id, a.partition, a.key, a.kind, a.payload, a.headers, a.created_at, a.failures, a.deliveries, a.place
    from fencepost._of_batch(target, st) a
    where a.place in ('retry', 'snooze', 'dead', 'withdrawn') and fencepost._settles(st, a.position, fencepost._end(st.next))
    order by a.position;
end
$$;

-- Whether what was decided about the message at `position` is settled with what comes up to `through`. While one message at a time
-- is handed out, what was decided about those to come waits for its turn.
create or replace function fencepost._settles(st fencepost.state_0, row_position bigint, through bigint) returns boolean
language sql immutable
as $$ select ((st).isolated).h is null or row_position <= through or row_position > fencepost._end((st).isolated) $$;

-- Writes down what was decided about a message of the open batch. The last decision counts.
create or replace function fencepost._decide(
    target fencepost.target, st fencepost.state_0, kept fencepost.kept, place text, due_at timestamptz, cause text, reason text
) returns fencepost.state_0
language plpgsql
as $$
begin
    insert into fencepost.aside as a (consumer_id, position, id, partition, key, kind, payload, headers, created_at, place, due_at, cause, reason, batch)
    values ((target).id, kept.position, kept.id, kept.partition, kept.key, kept.kind, kept.payload, kept.headers, kept.created_at,
        _decide.place, _decide.due_at, _decide.cause, _decide.reason, st.batch_id)
    on conflict (consumer_id, position) do update
        set place = excluded.place, due_at = excluded.due_at, cause = excluded.cause, reason = coalesce(excluded.reason, a.reason),
            batch = excluded.batch;
    -- One of the log was not set aside before.
    st.aside := st.aside + (kept.place is null)::integer;
    return st;
end
$$;

-- What a slot has set aside that is neither due nor parked. STABLE, so that it becomes part of the statement.
-- OFFSET 0: a lookup a partition, which no plan turns into one walk over everything.
create or replace function fencepost._of_batch(target fencepost.target, st fencepost.state_0) returns setof fencepost.aside
language sql stable
as $$
    select a.* from unnest(fencepost._share((st).slot, (target).slots, (target).partitions)) p
    cross join lateral (
        select x.* from fencepost.aside x
        where x.consumer_id::bigint * 256 + x.partition = (target).id::bigint * 256 + p and x.place not in ('due', 'parked')
            and x.batch >= coalesce((st).batch_from, 0) offset 0) a
$$;

-- What a slot has set aside that is due by a moment.
create or replace function fencepost._due(target fencepost.target, st fencepost.state_0, moment timestamptz) returns setof fencepost.aside
language sql stable
as $$
    select a.* from unnest(fencepost._share((st).slot, (target).slots, (target).partitions)) p
    cross join lateral (
        select x.* from fencepost.aside x
        where x.consumer_id::bigint * 256 + x.partition = (target).id::bigint * 256 + p and x.place = 'due'
            and x.due_at >= coalesce((st).due_from, '-infinity') and x.due_at <= moment offset 0) a
$$;

-- When the first of the messages that come again is due for a slot; `infinity` when none does.
create or replace function fencepost._first_due(target fencepost.target, st fencepost.state_0) returns timestamptz
language sql volatile
as $$
    select coalesce(min(m.due_at), 'infinity')
    from unnest(fencepost._share((st).slot, (target).slots, (target).partitions)) p
    cross join lateral (
        select a.due_at from fencepost.aside a
        where a.consumer_id::bigint * 256 + a.partition = (target).id::bigint * 256 + p and a.place = 'due'
            and a.due_at >= coalesce((st).due_from, '-infinity')
        order by a.due_at limit 1) m
$$;

-- A lower bound of when messages are due, with one more. No bound stays none.
create or replace function fencepost._earlier(bound timestamptz, due_at timestamptz) returns timestamptz
language sql immutable
as $$ select case when bound is not null then least(bound, due_at) end $$;
