-- How everything else stands, for people and reports. Counting costs time in proportion to what is counted.

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
            nullif(fencepost._first_due(target, fencepost._state(target.id, slot)), 'infinity'))
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
from fencepost._slot_report();

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
