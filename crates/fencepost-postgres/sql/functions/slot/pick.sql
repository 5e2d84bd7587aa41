-- Picks what a receive on a slot without an open batch hands out, where something was set aside or may have to be. The slot's row is
-- locked. Returns the state with a batch, or with the cursor moved over what is not to be handed out, or as it was.
create or replace function fencepost._pick(target fencepost.target, st fencepost.state_0, most integer) returns fencepost.state_0
language plpgsql
as $$
begin
    if (st.isolated).h is not null then
        return fencepost._pick_alone(target, st);
    end if;
    return fencepost._pick_batch(target, st, most);
end
$$;

-- The state with a new open batch.
create or replace function fencepost._opened(st fencepost.state_0, next fencepost.cursor, size bigint, plain boolean) returns fencepost.state_0
language plpgsql immutable
as $$
begin
    st.batch_id := st.last_acked + 1;
    st.next := next;
    st.size := size;
    st.deliveries := 1;
    st.crashes := 0;
    st.plain := plain;
    st.alone := (st.isolated).h is not null;
    -- While one message at a time is handed out, what was decided about those to come stays of the batch before.
    if not st.alone then
        st.batch_from := st.batch_id;
    end if;
    return st;
end
$$;

-- Puts a message of the log aside: parked, or void with no content, by the batch that is about to be opened.
create or replace function fencepost._put(target fencepost.target, st fencepost.state_0, l fencepost.logged, place text) returns fencepost.state_0
language plpgsql
as $$
begin
    insert into fencepost.aside (consumer_id, position, id, partition, key, kind, payload, headers, created_at, place, batch)
    values ((target).id, l.position, l.id, l.partition, l.key, l.kind, case when place = 'void' then '' else l.payload end,
        case when place <> 'void' then l.headers end, l.created_at, place, case when place = 'void' then st.last_acked + 1 end);
    st.aside := st.aside + 1;
    return st;
end
$$;

-- The next message of what a suspected batch was: first those that had come again, then those of the log.
create or replace function fencepost._pick_alone(target fencepost.target, st fencepost.state_0) returns fencepost.state_0
language plpgsql
as $$
declare
    a fencepost.aside;
    l fencepost.logged;
begin
    for a in
        select x.* from fencepost._of_batch(target, st) x where x.place = 'alone' order by x.position
    loop
        if not fencepost._waits(target, a.position, a.key) then
            update fencepost.aside x set place = 'batch', batch = st.last_acked + 1
                where x.consumer_id = a.consumer_id and x.position = a.position;
            return fencepost._opened(st, st.cursor, 1, false);
        end if;
        update fencepost.aside x set place = 'parked', batch = null where x.consumer_id = a.consumer_id and x.position = a.position;
    end loop;
    for l in
        select x.* from unnest(fencepost._look(target, st.slot, st.cursor, fencepost._end(st.isolated), fencepost._seen(st.isolated), 9223372036854775807)) x
        where x.position <= fencepost._end(st.isolated)
            and not exists (select from fencepost.aside y where y.consumer_id = (target).id and y.position = x.position offset 0)
    loop
        if not fencepost._waits(target, l.position, l.key) then
            return fencepost._opened(st, fencepost._cut(st.cursor, st.isolated, l.position), 1, false);
        end if;
        st := fencepost._put(target, st, l, 'parked');
    end loop;
    st.cursor := st.isolated;
    st.isolated := null;
    return fencepost._settled(target, st, fencepost._end(st.cursor), 0);
end
$$;

-- A batch of at most `most` messages: those that come again first, by position; while new ones wait too they take at most half of it,
-- rounded up, and with a limit of 1 both take turns. What is over, before the consumer's start, or behind a failed one of its key is
-- put aside on the way.
create or replace function fencepost._pick_batch(target fencepost.target, st fencepost.state_0, most integer) returns fencepost.state_0
language plpgsql
as $$
declare
    moment timestamptz := fencepost._clock();
    again bigint[] := '{}';
    at bigint;
    work fencepost.cursor := st.cursor;
    s pg_snapshot := coalesce((work).s, fencepost._snapshot());
    rows fencepost.logged[];
    l fencepost.logged;
    fresh integer := 0;
    limit_now integer;
    aside fencepost.logged[] := '{}';
    places text[] := '{}';
    -- How far the cursor goes with each number of fresh messages: over everything before the next one that was looked at.
    through bigint[] := array[null::bigint];
    taken integer;
    shared integer;
begin
    if st.aside > 0 then
        again := array(
            select a.position from fencepost._due(target, st, moment) a order by a.position limit most);
    end if;
    -- What is put aside is bounded too: the rest comes with the next call.
    while fresh < most and cardinality(aside) < 1000 loop
        -- Where nothing but what is to be put aside has come, more is looked at a time.
        limit_now := case when aside = '{}' then most - fresh else greatest(most - fresh, 100) end;
        rows := fencepost._look(target, st.slot, work, 9223372036854775807, s, limit_now);
        if rows = '{}' then
            -- A pass that finds nothing more is over.
            work := row((work).h, s, null, null);
            exit;
        end if;
        foreach l in array rows loop
            if l.expires_at <= moment or l.id <= (target).after_id then
                aside := aside || l;
                places := places || 'void'::text;
            elsif fencepost._waits(target, l.position, l.key) then
                aside := aside || l;
                places := places || 'parked'::text;
            else
                fresh := fresh + 1;
                through := through || l.position;
            end if;
            through[fresh + 1] := l.position;
        end loop;
        work := fencepost._next(work, rows, s, limit_now);
        exit when cardinality(rows) < limit_now;
    end loop;
    shared := case
        when fresh = 0 then most
        when most = 1 then ((st.last_acked + 1) % 2)::integer
        else (most + 1) / 2
    end;
    again := again[1:shared];
    taken := least(fresh, most - cardinality(again));
    if taken < fresh then
        work := case when through[taken + 1] is null then st.cursor else fencepost._cut(st.cursor, work, through[taken + 1]) end;
    end if;
    for n in 1..cardinality(aside) loop
        -- Without a batch the cursor goes over what is void, and nothing has to remember it.
        if (aside[n]).position <= coalesce(through[taken + 1], 0) and (places[n] <> 'void' or taken + cardinality(again) > 0) then
            st := fencepost._put(target, st, aside[n], places[n]);
        end if;
    end loop;
    if again <> '{}' then
        -- One by one: for a list the planner may walk over everything of the consumer.
        foreach at in array again loop
            update fencepost.aside a set place = 'batch', batch = st.last_acked + 1 where a.consumer_id = (target).id and a.position = at;
        end loop;
        st.due_from := fencepost._first_due(target, st);
    end if;
    if taken + cardinality(again) > 0 then
        return fencepost._opened(st, work, taken + cardinality(again), again = '{}' and not exists (
            select from unnest(aside) u where u.position <= coalesce(through[taken + 1], 0)));
    end if;
    if through[1] is not null or (st.cursor).s is not null then
        st.cursor := work;
        st := fencepost._settled(target, st, fencepost._end(work), 0);
    end if;
    return st;
end
$$;
