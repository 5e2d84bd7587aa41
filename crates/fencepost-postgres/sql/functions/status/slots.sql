-- How slots and consumers stand: one statement over all of them, and for each queue one over those of its segments that have rows. Locks
-- nothing. Counting costs time in proportion to what is counted.

-- What waits for the slots of a queue: those numbers `slots` of consumers that have so many, whose cursors these are. In their order, how many
-- messages of the log, and the first one's position and when it was sent: those above the cursor, and those that committed late. What was set
-- aside is elsewhere.
create or replace function fencepost._waiting(
    queue_id integer, partitions integer, slots integer[], counts integer[], cursors fencepost.cursor[],
    out place bigint, out waiting bigint, out first bigint, out first_at timestamptz
)
returns setof record
language plpgsql volatile
as $$
declare
    log text := 'fencepost.q' || queue_id;
    fresh text;
    late text;
    sent text;
begin
    -- A row that can be seen has been written, so a segment without length has none.
    -- Late rows have transactions from the cursor's xmin on; receives look closer, as they do it more often.
    select string_agg(format('
            select count(*) as many, min(l.position) as first from %1$s l
            where c.h < $5 and l.partition = any(p.parts) and l.position > c.h', n.name),
                ' union all '),
        string_agg(format('
            select count(*), min(l.position) from %1$s l
            where l.partition = any(p.parts) and l.xid >= pg_snapshot_xmin(c.b) and l.position + 0 <= c.h
                and not fencepost._in(row(c.h, c.b, c.s, c.pos)::fencepost.cursor, l.position, l.xid)', n.name), ' union all '),
        string_agg(format('
            select l.created_at from %1$s l where f.first is not null and l.partition = any(p.parts) and l.position = f.first', n.name), ' union all ')
        into fresh, late, sent
        from (select log || '_' || s as name from generate_series(0, 2) s where pg_relation_size(log || '_' || s) > 0) n;
    if fresh is null then
        return query select n::bigint, 0::bigint, null::bigint, null::timestamptz from generate_series(1, cardinality(slots)) n;
        return;
    end if;
    return query execute format('
        select c.place, f.waiting::bigint, f.first, (select min(s.created_at) from (%s) s)
        from rows from (unnest($1), unnest($2), unnest($3)) with ordinality c (slot, count, h, b, s, pos, place)
        cross join lateral (select fencepost._share(c.slot, c.count, $4) as parts offset 0) p
        cross join lateral (select sum(w.many) as waiting, min(w.first) as first from (%s union all %s) w) f',
        sent, fresh, late) using slots, counts, cursors, partitions, pg_sequence_last_value(log || '_position');
end
$$;

-- How every slot stands, of one queue's consumers or of all. `first_at` is when the first of the messages was sent that wait.
create or replace function fencepost._any_slot_report(
    wanted text default null,
    out queue text, out consumer text, out slot integer, out state text, out holder text, out epoch bigint, out nonce text, out ttl interval,
    out expires_at timestamptz, out cursor_position bigint, out batch_id bigint, out through bigint, out size integer, out deliveries integer,
    out crashes integer, out plain boolean, out alone boolean, out last_acked bigint, out isolated bigint,
    out lag bigint, out retrying bigint, out parked bigint, out first_at timestamptz, out blocked_by integer
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
    with s as materialized (
        select q.id as queue_id, q.name as queue, q.partitions, c.id as consumer_id, c.name as consumer, c.slots as count, r as owner, r.slot,
            -- Who has the row locked or changed stands in it. Nothing is locked to find out.
            case when r.xmax <> '0' then r.xmax end as locker, st,
            row_number() over (partition by q.id order by c.id, r.slot) as place
        from fencepost.queue q join fencepost.consumer c on c.queue_id = q.id join fencepost.slot r on r.consumer_id = c.id
        cross join lateral fencepost._state(r.consumer_id, r.slot) st
        where wanted is null or q.name = wanted
    ), w as (
        select q.queue_id, w.*
        from (
            select s.queue_id, s.partitions, array_agg(s.slot::integer order by s.place) as slots,
                array_agg(s.count::integer order by s.place) as counts, array_agg((s.st).cursor order by s.place) as cursors
            from s group by s.queue_id, s.partitions) q
        cross join lateral fencepost._waiting(q.queue_id, q.partitions, q.slots, q.counts, q.cursors) w
    ), a as materialized (
        -- What is in the share of a slot: partitions go round.
        select a.consumer_id, s.slot, count(*) filter (where a.place <> 'void') as kept,
            count(*) filter (where a.place in ('due', 'retry', 'snooze')) as retrying,
            count(*) filter (where a.place in ('parked', 'withdrawn')) as parked, count(*) filter (where a.position > ((s.st).cursor).h) as ahead,
            min(a.position) filter (where a.place <> 'void') as first,
            (array_agg(a.created_at order by a.position) filter (where a.place <> 'void'))[1] as first_at
        from fencepost.aside a join s on s.consumer_id = a.consumer_id and s.slot = a.partition % s.count
        group by a.consumer_id, s.slot
    ), lockers as materialized (
        select l.transactionid, min(l.pid) as pid from pg_locks l
        where l.locktype = 'transactionid' and l.granted and l.pid <> pg_backend_pid() group by l.transactionid
    )
    select s.queue, s.consumer, s.slot,
        case
            when (s.owner).worker is null and (s.st).batch_id is null then 'free'
            when (s.owner).worker is null then 'orphan'
            when (s.st).batch_id is null then 'held'
            else 'open'
        end,
        (s.owner).worker, (s.owner).epoch, (s.owner).nonce, case when (s.owner).worker is not null then (s.owner).ttl end,
        case when (s.owner).worker is not null then (s.st).expires_at end, fencepost._end((s.st).cursor), (s.st).batch_id,
        fencepost._end((s.st).next), (s.st).size, (s.st).deliveries, (s.st).crashes, (s.st).plain, (s.st).alone,
        nullif((s.st).last_acked, 0), fencepost._end((s.st).isolated),
        -- A message that stands in the log above the cursor and was set aside is counted once.
        w.waiting - coalesce(a.ahead, 0) + coalesce(a.kept, 0), coalesce(a.retrying, 0), coalesce(a.parked, 0),
        case when a.first <= w.first or w.first is null then a.first_at else w.first_at end, k.pid
    from s join w on w.queue_id = s.queue_id and w.place = s.place
    left join a on a.consumer_id = s.consumer_id and a.slot = s.slot
    left join lockers k on k.transactionid = s.locker
    order by s.queue collate "C", s.consumer collate "C", s.slot
$$;

-- The slots that an open transaction has locked or changed, with the process that runs it.
create or replace function fencepost._any_blocked_slots(out queue text, out consumer text, out slot integer, out pid integer)
returns setof record
language sql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
    select q.name, c.name, r.slot, l.pid
    from pg_locks l join fencepost.slot r on r.xmax = l.transactionid and r.xmax <> '0'
    join fencepost.consumer c on c.id = r.consumer_id join fencepost.queue q on q.id = c.queue_id
    where l.locktype = 'transactionid' and l.granted and l.pid <> pg_backend_pid()
    order by q.name collate "C", c.name collate "C", r.slot
$$;

-- How every consumer stands, of one queue or of all. Without `counting` what its slots tell is left out, for who has asked them.
create or replace function fencepost._any_consumer_report(
    wanted text default null, counting boolean default true,
    out queue text, out consumer text, out slots integer, out on_failure text, out max_attempts integer,
    out max_crashes integer, out backoff interval, out lag bigint, out retrying bigint, out parked bigint, out dead bigint, out workers bigint,
    out first_at timestamptz
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
    select q.name, c.name, c.slots, c.on_failure, c.max_attempts, c.max_crashes, c.backoff, coalesce(s.lag, 0), coalesce(s.retrying, 0),
        coalesce(s.parked, 0),
        (select count(*) from fencepost.dead d where d.queue_id = q.id and d.consumer = c.name),
        (select count(*) from fencepost.member m where m.consumer_id = c.id and m.expires_at > fencepost._clock()), s.first_at
    from fencepost.queue q join fencepost.consumer c on c.queue_id = q.id
    left join (
        select x.queue, x.consumer, sum(x.lag)::bigint lag, sum(x.retrying)::bigint retrying, sum(x.parked)::bigint parked,
            min(x.first_at) as first_at
        from fencepost._any_slot_report(wanted) x where counting group by 1, 2
    ) s on s.queue = q.name and s.consumer = c.name
    where wanted is null or q.name = wanted
    order by q.name collate "C", c.name collate "C"
$$;
