-- The row of a queue, or the error `not_found`.
create or replace function fencepost._queue(name text) returns fencepost.queue
language plpgsql stable
as $$
declare
    q fencepost.queue;
begin
    select * into q from fencepost.queue x where x.name = _queue.name;
    if q.id is null then
        perform fencepost._name('a queue name', name);
        perform fencepost._refuse('not_found', format('cannot find the queue `%s`', name), jsonb_build_object('queue', name),
            'the view fencepost.queue_status shows the queues there are; fencepost.create_queue makes one');
    end if;
    return q;
end
$$;

-- The highest position that counts as removed; the rows go later, by whole segments. A sequence, not a column: workers move it all the
-- time, and replaced versions of the queue's row would be in the way of everybody who looks the queue up while some snapshot is held.
create or replace function fencepost._removed(queue_id integer) returns bigint
language plpgsql volatile
as $$
declare
    removed bigint;
begin
    execute 'select last_value from fencepost.q' || queue_id || '_removed' into removed;
    return removed;
end
$$;

-- The number of a queue, which the names of its own functions begin with; NULL when there is none. It never stands for another queue.
create or replace function fencepost._found_number(queue text) returns integer
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
begin
    return (select q.id from fencepost.queue q where q.name = queue);
end
$$;

-- The same, or the error `not_found`.
create or replace function fencepost._queue_number(queue text) returns integer
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    number integer := (select q.id from fencepost.queue q where q.name = queue);
begin
    if number is null then
        number := (fencepost._queue(queue)).id;
    end if;
    return number;
end
$$;

-- The highest position that was taken in a queue so far, by whoever, committed or not.
create or replace function fencepost._appended(queue_id integer) returns bigint
language plpgsql volatile
as $$
declare
    appended bigint;
begin
    execute 'select last_value from fencepost.q' || queue_id || '_position' into appended;
    return appended;
end
$$;
