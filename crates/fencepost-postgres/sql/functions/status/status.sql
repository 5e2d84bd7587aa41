-- How everything stands, for people and reports. Counting costs time in proportion to what is counted.

-- How every slot stands, of one queue's consumers or of all.
create or replace function fencepost._any_slot_status(
    wanted text default null,
    out queue text, out consumer text, out slot integer, out state text, out holder text, out epoch bigint, out nonce text, out ttl interval,
    out expires_at timestamptz, out cursor_position bigint, out batch_id bigint, out through bigint, out size integer, out deliveries integer,
    out crashes integer, out plain boolean, out alone boolean, out last_acked bigint, out isolated bigint,
    out lag bigint, out retrying bigint, out parked bigint, out blocked_by integer
)
returns setof record
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    target fencepost.target;
    x record;
    st fencepost.state_0;
    s fencepost.slot;
begin
    for x in
        select q.name as queue, c.name as consumer, r as row
        from fencepost.queue q join fencepost.consumer c on c.queue_id = q.id join fencepost.slot r on r.consumer_id = c.id
        where wanted is null or q.name = wanted
        order by q.name collate "C", c.name collate "C", r.slot
    loop
        s := x.row;
        target := fencepost._consumer(x.queue, x.consumer);
        st := fencepost._state(s.consumer_id, s.slot);
        queue := x.queue;
        consumer := x.consumer;
        slot := s.slot;
        epoch := s.epoch;
        holder := s.worker;
        nonce := s.nonce;
        ttl := case when s.worker is not null then s.ttl end;
        expires_at := case when s.worker is not null then st.expires_at end;
        state := case
            when s.worker is null and st.batch_id is null then 'free'
            when s.worker is null then 'orphan'
            when st.batch_id is null then 'held'
            else 'open'
        end;
        cursor_position := fencepost._end(st.cursor);
        batch_id := st.batch_id;
        through := fencepost._end(st.next);
        size := st.size;
        deliveries := st.deliveries;
        crashes := st.crashes;
        plain := st.plain;
        alone := st.alone;
        last_acked := nullif(st.last_acked, 0);
        isolated := fencepost._end(st.isolated);
        select count(*) filter (where a.place <> 'void'),
                count(*) filter (where a.place in ('due', 'retry', 'snooze')), count(*) filter (where a.place in ('parked', 'withdrawn'))
            into lag, retrying, parked
            from fencepost.aside a
            where a.consumer_id = s.consumer_id and a.partition = any(fencepost._share(s.slot, target.slots, target.partitions));
        lag := lag + fencepost._waiting(target, s.slot, st.cursor);
        blocked_by := fencepost._blocked_by(s.consumer_id, s.slot);
        return next;
    end loop;
end
$$;

-- How many messages of the log wait for a slot: those above the cursor, and those that committed late. What was set aside is elsewhere.
create or replace function fencepost._waiting(target fencepost.target, slot integer, c fencepost.cursor) returns bigint
language plpgsql volatile
as $$
declare
    waiting bigint;
begin
    execute replace('
        select (select count(*) from {q}_0 l where l.partition = any($1) and l.position > $2)
            + (select count(*) from {q}_1 l where l.partition = any($1) and l.position > $2)
            + (select count(*) from {q}_2 l where l.partition = any($1) and l.position > $2)
            + (select count(*) from unnest({q}_late($1, row($2, ($3).b, null, null), fencepost._snapshot(), null)) l
                where not fencepost._in($3, l.position, l.xid))
            - (select count(*) from fencepost.aside a where a.consumer_id = $4 and a.partition = any($1) and a.position > $2)',
        '{q}', 'fencepost.q' || (target).queue_id) into waiting
        using fencepost._share(slot, (target).slots, (target).partitions), (c).h, c, (target).id;
    return waiting;
end
$$;

-- How every consumer stands, of one queue or of all.
create or replace function fencepost._any_consumer_status(
    wanted text default null, out queue text, out consumer text, out slots integer, out on_failure text, out max_attempts integer,
    out max_crashes integer, out backoff interval, out lag bigint, out retrying bigint, out parked bigint, out dead bigint, out workers bigint
)
returns setof record
language sql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
    select q.name, c.name, c.slots, c.on_failure, c.max_attempts, c.max_crashes, c.backoff, s.lag, s.retrying, s.parked,
        (select count(*) from fencepost.dead d where d.queue_id = q.id and d.consumer = c.name),
        (select count(*) from fencepost.member m where m.consumer_id = c.id and m.expires_at > fencepost._clock())
    from fencepost.queue q join fencepost.consumer c on c.queue_id = q.id
    join (
        select x.queue, x.consumer, sum(x.lag)::bigint lag, sum(x.retrying)::bigint retrying, sum(x.parked)::bigint parked
        from fencepost._any_slot_status(wanted) x group by 1, 2
    ) s on s.queue = q.name and s.consumer = c.name
    order by q.name collate "C", c.name collate "C"
$$;

-- What one queue holds, or every one.
create or replace function fencepost._any_queue_status(
    wanted text default null, out queue text, out partitions integer, out consumers bigint, out paused boolean, out retain_for interval, out retain_unread interval,
    out retain_unread_bytes bigint, out delayed bigint, out stored bigint, out oldest_at timestamptz
)
returns setof record
language sql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
    select q.name, q.partitions, (select count(*) from fencepost.consumer c where c.queue_id = q.id), q.paused, q.retain_for,
        q.retain_unread, q.retain_unread_bytes, (select count(*) from fencepost.delayed d where d.queue_id = q.id),
        fencepost._stored(q.id), fencepost._oldest_at(q)
    from fencepost.queue q where wanted is null or q.name = wanted order by q.name collate "C"
$$;

-- When the first stored message of a queue was sent.
create or replace function fencepost._oldest_at(q fencepost.queue) returns timestamptz
language plpgsql volatile
as $$
declare
    at timestamptz;
begin
    execute replace('
        select created_at from (
            select position, created_at from {q}_0 where position > $1
            union all select position, created_at from {q}_1 where position > $1
            union all select position, created_at from {q}_2 where position > $1) l order by position limit 1',
        '{q}', 'fencepost.q' || q.id) into at using fencepost._removed(q.id);
    return at;
end
$$;

-- How many dead letters every consumer has, of one queue or of all.
create or replace function fencepost._any_dead_counts(wanted text default null, out queue text, out consumer text, out dead bigint)
returns setof record
language sql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
    select q.name, d.consumer, count(*) from fencepost.dead d join fencepost.queue q on q.id = d.queue_id
    where wanted is null or q.name = wanted group by q.name, d.consumer order by q.name collate "C", d.consumer collate "C"
$$;

-- In how long the next message becomes due for a slot: a delayed one of the queue, or one that comes again. NULL: none.
create or replace function fencepost._any_next_due(queue text, consumer text, slot integer) returns interval
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    target fencepost.target := fencepost._consumer(queue, consumer);
    due timestamptz;
begin
    perform fencepost._slot_of(target, slot);
    select least(
            (select min(d.due_at) from fencepost.delayed d where d.queue_id = target.queue_id),
            (select min(a.due_at) from fencepost.aside a where a.consumer_id = target.id and a.place = 'due'
                and a.partition = any(fencepost._share(slot, target.slots, target.partitions))))
        into due;
    return case when due is not null then greatest(interval '0', due - fencepost._clock()) end;
end
$$;

-- What operators did to a consumer's slots, oldest first.
create or replace function fencepost._any_slot_history(queue text, consumer text) returns setof fencepost.slot_forced
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    target fencepost.target := fencepost._consumer(queue, consumer);
begin
    return query select * from fencepost.slot_forced f where f.consumer_id = target.id order by f.id;
end
$$;

-- For callers of SQL.
create or replace view fencepost.queue_status with (security_barrier) as select * from fencepost._queue_status();

create or replace view fencepost.slot_status with (security_barrier) as
select queue, consumer, slot, case when blocked_by is not null then 'blocked' else state end as state, holder, epoch, expires_at, batch_id,
    deliveries, crashes, lag, blocked_by
from fencepost._slot_status();

-- The tables are read with the owner's rights; which rows, by those of who asks.
create or replace view fencepost.dead_letters with (security_barrier) as
select q.name as queue, d.consumer, d.id, 'p' || d.position as position, d.key, d.kind, d.payload, d.headers, d.created_at, d.attempts,
    d.cause, d.reason, d.died_at
from fencepost.dead d join fencepost.queue q on q.id = d.queue_id
where fencepost._may_consume(q.id);

-- The payload of a received message as text, or as JSON.
create or replace function fencepost.payload_text(message fencepost.message) returns text
language sql stable
as $$ select pg_catalog.convert_from((message).payload, 'UTF8') $$;

create or replace function fencepost.payload_json(message fencepost.message) returns jsonb
language sql stable
as $$ select pg_catalog.convert_from((message).payload, 'UTF8')::jsonb $$;
