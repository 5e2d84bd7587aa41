-- Making, changing, stopping and removing schedules. What a spec means is nobody's business here.

-- Makes a schedule, or gives it another definition: then it fires `next_at`, and its intervals count from `anchor_at`, which is now. Where it
-- fires when it did, it goes on with what came next; otherwise a time that was due already counts as missed. One that is paused stays so.
-- The first revision is the anchor: one that is made anew has a later one, so that no tick of the one before is its own.
-- Returns `created`, `changed` or `unchanged`, which wrote nothing; the error `not_found` when the queue is not there.
-- Locks: the schedule's row FOR UPDATE, unless it stays as it is.
create or replace function fencepost._schedule_put(
    schedule text, spec text, zone text, queue text, kind text, key text, payload bytea, misfire text, jitter bigint,
    starts_at timestamptz, ends_at timestamptz, anchor_at timestamptz, next_at timestamptz, due_at timestamptz
) returns text
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
    present fencepost.schedule;
    made bigint;
    found_id bigint;
    has_same_times boolean;
    goes_on boolean;
begin
    perform fencepost._read_committed('put a schedule');
    perform fencepost._name('a schedule name', schedule), fencepost._name('a message kind', kind);
    if key is not null then
        perform fencepost._name('a key', key);
    end if;
    perform fencepost._queue(queue);
    loop
        select * into present from fencepost.schedule s where s.name = schedule;
        if present.id is null then
            insert into fencepost.schedule (name, spec, zone, queue, kind, key, payload, misfire, jitter, starts_at, ends_at, anchor_at,
                    next_at, due_at, revision)
                values (schedule, spec, zone, queue, kind, key, payload, misfire, jitter, starts_at, ends_at, anchor_at, next_at, due_at,
                    (extract(epoch from anchor_at) * 1000000)::bigint)
                on conflict do nothing returning id into made;
            exit when made is not null;
            -- RACE: somebody else has made it meanwhile, and may have removed it again.
            continue;
        end if;
        if found_id is distinct from present.id then
            if fencepost._is_defined(present, spec, zone, queue, kind, key, payload, misfire, jitter, starts_at, ends_at) then
                return 'unchanged';
            end if;
            -- ORDER: locked, then read again.
            select s.id into found_id from fencepost.schedule s where s.id = present.id for update;
            continue;
        end if;
        if fencepost._is_defined(present, spec, zone, queue, kind, key, payload, misfire, jitter, starts_at, ends_at) then
            return 'unchanged';
        end if;
        has_same_times := (present.spec, present.zone, present.jitter, present.starts_at, present.ends_at)
            is not distinct from (spec, zone, jitter, starts_at, ends_at);
        goes_on := has_same_times and (present.next_at is not null or present.paused);
        update fencepost.schedule s
        set spec = _schedule_put.spec, zone = _schedule_put.zone, queue = _schedule_put.queue, kind = _schedule_put.kind,
            key = _schedule_put.key, payload = _schedule_put.payload, misfire = _schedule_put.misfire, jitter = _schedule_put.jitter,
            starts_at = _schedule_put.starts_at, ends_at = _schedule_put.ends_at,
            anchor_at = case when goes_on then s.anchor_at else _schedule_put.anchor_at end,
            next_at = case when goes_on then s.next_at when not s.paused then _schedule_put.next_at end,
            due_at = case when goes_on then s.due_at when not s.paused then _schedule_put.due_at end,
            missed = least(s.missed::numeric + (not has_same_times and coalesce(s.due_at <= _schedule_put.anchor_at, false))::int,
                9223372036854775807),
            revision = s.revision + 1, problem = null
        where s.id = found_id;
        exit;
    end loop;
    perform fencepost._schedules_changed();
    return case when made is not null then 'created' else 'changed' end;
end
$$;

-- Whether a schedule has this definition, and no problem that has stopped it.
create or replace function fencepost._is_defined(
    present fencepost.schedule, spec text, zone text, queue text, kind text, key text, payload bytea, misfire text, jitter bigint,
    starts_at timestamptz, ends_at timestamptz
) returns boolean
language sql immutable
as $$
    select (present.spec, present.zone, present.queue, present.kind, present.key, present.payload, present.misfire, present.jitter,
            present.starts_at, present.ends_at)
            is not distinct from (spec, zone, queue, kind, key, payload, misfire, jitter, starts_at, ends_at)
        and (present.problem is null or present.due_at is not null or present.paused)
$$;

-- Wakes who waits for schedules, once the transaction commits. Notifies whether or not somebody sleeps: changes are rare, and a leader
-- that need not register asks nothing while it is idle.
create or replace function fencepost._schedules_changed() returns void
language plpgsql
as $$
begin
    perform nextval('fencepost.schedule_changes'), pg_notify('fencepost', fencepost._topic_hash('schedules')::text);
end
$$;

-- A schedule's row, or the error `not_found`, also for one that the caller may not see.
create or replace function fencepost._schedule(name text) returns fencepost.schedule
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    found_schedule fencepost.schedule;
begin
    select * into found_schedule from fencepost._schedule_state s where s.name = _schedule.name;
    if found_schedule.id is null then
        perform fencepost._name('a schedule name', name);
        perform fencepost._refuse('not_found', format('cannot find the schedule `%s`', name), jsonb_build_object('schedule', name),
            'the view fencepost.schedule_status shows the schedules there are');
    end if;
    return found_schedule;
end
$$;

-- Stops a schedule, or lets it go on with what is given. True when that changed something.
-- Locks: the schedule's row FOR NO KEY UPDATE, unless it stays as it is.
create or replace function fencepost._schedule_set_paused(schedule text, paused boolean, next_at timestamptz default null,
    due_at timestamptz default null) returns boolean
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
    present fencepost.schedule;
begin
    perform fencepost._read_committed('pause or resume a schedule');
    present := fencepost._schedule(schedule);
    if present.paused = paused then
        return false;
    end if;
    perform from fencepost.schedule s where s.id = present.id for no key update;
    -- ORDER: locked, then read again.
    present := fencepost._schedule(schedule);
    if present.paused = paused then
        return false;
    end if;
    update fencepost.schedule s
    set paused = _schedule_set_paused.paused, revision = s.revision + 1, problem = case when _schedule_set_paused.paused then s.problem end,
        next_at = _schedule_set_paused.next_at, due_at = _schedule_set_paused.due_at
    where s.id = present.id;
    if not paused then
        perform fencepost._schedules_changed();
    end if;
    return true;
end
$$;

-- Removes a schedule with what it has fired. True: removed; false: not there.
-- Locks: the schedule's row FOR UPDATE.
create or replace function fencepost._schedule_remove(schedule text) returns boolean
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
    removed bigint;
begin
    perform fencepost._read_committed('remove a schedule');
    perform fencepost._name('a schedule name', schedule);
    delete from fencepost.schedule s where s.name = schedule returning s.id into removed;
    if removed is null then
        return false;
    end if;
    delete from fencepost.fired f where f.schedule_id = removed;
    perform fencepost._schedules_changed();
    return true;
end
$$;
