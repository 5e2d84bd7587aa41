-- Sending what schedules send.

-- An instant as messages tell it: RFC 3339 in UTC, with microseconds only when there are some.
create or replace function fencepost._nominal_time(at timestamptz) returns text
language sql stable
as $$
    select to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS')
        || case when extract(microseconds from at)::bigint % 1000000 <> 0 then to_char(at at time zone 'UTC', '.US') else '' end || 'Z'
$$;

-- The headers of a fired message.
create or replace function fencepost._fired_headers(schedule text, at timestamptz) returns jsonb
language sql stable
as $$ select jsonb_build_object('fencepost-schedule', schedule, 'fencepost-nominal-time', fencepost._nominal_time(at)) $$;

-- Sends one message of a schedule now, which is its nominal time, and changes nothing else.
-- Locks: none.
create or replace function fencepost._schedule_run(schedule text, out at timestamptz, out message bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
set lock_timeout = '5s'
as $$
declare
    present fencepost.schedule := fencepost._schedule(schedule);
    queue_id integer := fencepost._queue_number(present.queue);
    sent bigint[];
begin
    at := fencepost._clock();
    execute 'select fencepost.q' || queue_id || '_write(null, $1, $2, $3, $4, $5, null)' into sent
        using array[present.payload], array[present.key], array[present.kind], array[fencepost._fired_headers(schedule, at)], array[at];
    message := sent[1];
end
$$;

-- Does what the leader judged that schedules are to do; all of it or, when the leader is fenced, nothing. Each tick has its place in all
-- arrays; `times` has arrays of nominal times, as texts. A row for each tick whose schedule is still as it was judged: whether its queue is
-- gone, and what was sent for which nominal times. One that somebody else has locked is left out, so that nobody keeps the others from firing.
-- Locks: the lease's row FOR KEY SHARE, then the schedules' rows FOR NO KEY UPDATE, skipped when they are locked.
-- Waits for a queue that is being dropped for less than others do: whoever leads has to renew its lease.
-- INVARIANT: nominal times only rise. What is not after the last one that a schedule fired is left out, so each fires once.
create or replace function fencepost._schedules_fire(
    leader text, epoch bigint, names text[], revisions bigint[], times text[], skipped bigint[], next_times timestamptz[],
    next_dues timestamptz[], problems text[],
    out place bigint, out is_gone boolean, out at timestamptz, out sent_times timestamptz[], out sent bigint[]
)
returns setof record
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
set lock_timeout = '500ms'
as $$
declare
    locked bigint[];
    due record;
    went record;
    positions bigint[];
    grown bigint[] := '{}';
    one bigint;
begin
    perform fencepost._read_committed('fire schedules');
    perform fencepost._any_lease_guard(leader, epoch);
    locked := array(select s.id from fencepost.schedule s where s.name = any(names) order by s.id for no key update skip locked);
    at := fencepost._clock();

    -- ORDER: read in later statements than the lock. Every join is by an index: how long the arrays are is not known to the plan.
    for due in
        select q.id as queue_id, array_agg(s.id order by t.place, f.nominal_at) as ids,
            array_agg(f.nominal_at order by t.place, f.nominal_at) as times, array_agg(s.payload order by t.place, f.nominal_at) as payloads,
            array_agg(s.key order by t.place, f.nominal_at) as keys, array_agg(s.kind order by t.place, f.nominal_at) as kinds,
            array_agg(fencepost._fired_headers(s.name, f.nominal_at) order by t.place, f.nominal_at) as headers
        from unnest(names, revisions, _schedules_fire.times) with ordinality t (name, revision, times, place)
        cross join lateral unnest(t.times::timestamptz[]) f (nominal_at)
        join fencepost.schedule s on s.name = t.name
        join fencepost.queue q on q.name = s.queue
        where s.id = any(locked) and s.revision = t.revision and not s.paused and f.nominal_at > coalesce(s.last_at, '-infinity')
        group by q.id order by q.id
    loop
        execute 'select fencepost.q' || due.queue_id || '_write(null, $1, $2, $3, $4, $5, null)' into positions
            using due.payloads, due.keys, due.kinds, due.headers, array_fill(at, array[cardinality(due.ids)]);
        insert into fencepost.fired (schedule_id, nominal_at, fired_at, message)
            select u.id, u.nominal_at, at, u.position from unnest(due.ids, due.times, positions) u (id, nominal_at, position);
    end loop;

    for went in
        with judged as (
            select t.place, s.id, n.sent_times, n.sent, t.next_at, t.due_at, t.skipped, t.problem, s.queue, cardinality(n.sent) as many,
                w.wanted > 0 and n.sent = '{}' as is_gone, w.wanted
            from unnest(names, revisions, _schedules_fire.times, skipped, next_times, next_dues, problems)
                with ordinality t (name, revision, times, skipped, next_at, due_at, problem, place)
            join fencepost.schedule s on s.name = t.name
            cross join lateral (
                select count(*) as wanted from unnest(t.times::timestamptz[]) f (nominal_at)
                where f.nominal_at > coalesce(s.last_at, '-infinity')) w
            cross join lateral (
                select coalesce(array_agg(f.nominal_at order by f.nominal_at), '{}') as sent_times,
                    coalesce(array_agg(f.message order by f.nominal_at), '{}') as sent
                from fencepost.fired f where f.schedule_id = s.id and f.nominal_at > coalesce(s.last_at, '-infinity')) n
            where s.id = any(locked) and s.revision = t.revision and not s.paused
        )
        update fencepost.schedule s
        set revision = s.revision + 1, next_at = j.next_at, due_at = j.due_at,
            last_at = coalesce(j.sent_times[j.many], s.last_at), last_fired_at = case when j.many > 0 then at else s.last_fired_at end,
            last_message = coalesce(j.sent[j.many], s.last_message),
            missed = least(s.missed::numeric + j.skipped + case when j.is_gone then j.wanted else 0 end, 9223372036854775807),
            problem = case
                when j.problem is not null then j.problem
                when j.is_gone then format('the queue `%s` does not exist', j.queue)
                -- One that has stopped has no next time: with one it goes on.
                when j.many = 0 and (j.next_at is null or s.next_at is not null) then s.problem
            end,
            fires = s.fires + j.many
        from judged j
        where s.id = j.id
        returning j.place, j.is_gone, j.sent_times, j.sent, s.id, s.fires / 100 > (s.fires - j.many) / 100 as has_grown
    loop
        place := went.place;
        is_gone := went.is_gone;
        sent_times := went.sent_times;
        sent := went.sent;
        if went.has_grown then
            grown := grown || went.id;
        end if;
        return next;
    end loop;

    -- Once in a hundred fires: what is too many is not told, and is at most as much again.
    foreach one in array grown loop
        delete from fencepost.fired f
        where f.schedule_id = one and f.nominal_at <= (
            select o.nominal_at from fencepost.fired o where o.schedule_id = one order by o.nominal_at desc offset 100 limit 1);
    end loop;
end
$$;
