-- Makes a queue with its log. True: made; false: it was there with the same settings; otherwise `conflict`.
-- Locks: the name, against others who make it at the same moment.
create or replace function fencepost.create_queue(queue text, partitions integer default 16) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    made integer;
    present integer;
begin
    perform fencepost._read_committed('create_queue');
    -- ORDER: before a number is taken, so that none comes twice.
    perform fencepost._arrive();
    perform fencepost._name('a queue name', queue);
    if partitions is null or partitions not in (1, 2, 4, 8, 16, 32, 64, 128, 256) then
        perform fencepost._refuse('invalid_input',
            format('cannot use `%s` as a number of partitions', coalesce(partitions::text, 'NULL')),
            jsonb_build_object('argument', 'partitions'), 'allowed are 1, 2, 4, 8, 16, 32, 64, 128 and 256');
    end if;
    loop
        select q.partitions into present from fencepost.queue q where q.name = queue;
        exit when present is not null;
        insert into fencepost.queue as q (name, partitions) values (queue, create_queue.partitions)
            on conflict (name) do nothing returning id into made;
        if made is not null then
            perform fencepost._make_log(made, partitions, fencepost._messages_topic(queue));
            return true;
        end if;
        -- RACE: somebody else has made it meanwhile, and may have dropped it again.
    end loop;
    if present <> partitions then
        perform fencepost._refuse('conflict',
            format('cannot create the queue `%s` with `%s` partitions: it has `%s`', queue, partitions, present),
            jsonb_build_object('queue', queue, 'partitions', present),
            'the number of partitions of a queue is fixed; use it as it is, or another name');
    end if;
    return false;
end
$$;

-- Drops a queue with its messages and consumers. True: dropped; false: not there; `conflict` when it has consumers or messages,
-- only without force; `busy` when somebody keeps it in use for 5 s.
-- Locks: what _drop_queue takes. INVARIANT: its users take the same locks in every order, so no lock is waited for as long as a
-- deadlock would be; what is held is let go, and everything is tried again.
create or replace function fencepost.drop_queue(queue text, force boolean default false) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    dropped boolean;
    bound text := current_setting('lock_timeout');
    until timestamptz := clock_timestamp() + interval '5 seconds';
begin
    perform fencepost._read_committed('drop_queue');
    perform fencepost._name('a queue name', queue);
    loop
        begin
            perform set_config('lock_timeout', '100ms', true);
            dropped := fencepost._drop_queue(queue, coalesce(force, false));
            perform set_config('lock_timeout', bound, true);
            return dropped;
        exception when lock_not_available or deadlock_detected then
            if clock_timestamp() > until then
                perform fencepost._refuse('busy', format('cannot drop the queue `%s`: it is in use', queue),
                    jsonb_build_object('queue', queue), 'try again when the transactions that send to it or receive from it have ended');
            end if;
        end;
        perform pg_sleep(0.005 + random() * 0.01);
    end loop;
end
$$;

-- One attempt of a drop.
-- Locks: the queue's row, its slots in order, its log ACCESS EXCLUSIVE.
-- INVARIANT: what the log holds is judged under its lock, when every send has ended: one that is open is not seen before.
create or replace function fencepost._drop_queue(queue text, force boolean) returns boolean
language plpgsql
as $$
declare
    q fencepost.queue;
    consumers bigint;
begin
    -- ORDER: as who grants rights on a queue takes them.
    perform pg_advisory_xact_lock(fencepost._topic_hash('rights'));
    select * into q from fencepost.queue x where x.name = queue for update;
    if q.id is null then
        return false;
    end if;
    select count(*) into consumers from fencepost.consumer where queue_id = q.id;
    if consumers = 0 or force then
        perform from fencepost.slot s join fencepost.consumer c on c.id = s.consumer_id
            where c.queue_id = q.id order by s.consumer_id, s.slot for update of s;
        execute replace('lock table {q}_0, {q}_1, {q}_2 in access exclusive mode', '{q}', 'fencepost.q' || q.id);
    end if;
    if not force and (consumers > 0 or fencepost._holds(q.id)) then
        perform fencepost._refuse('conflict',
            format('cannot drop the queue `%s`: %s', queue, case consumers
                when 0 then 'it holds messages'
                when 1 then 'it has a consumer'
                else format('it has %s consumers', consumers) end),
            jsonb_build_object('queue', queue, 'consumers', consumers),
            'drop its consumers and let its messages go first, or force it: both are then gone with it');
    end if;
    perform fencepost._drop_log(q.id);
    perform fencepost._drop_consumer(c.id), fencepost._wake(fencepost._slots_topic(queue, c.name))
        from fencepost.consumer c where c.queue_id = q.id order by c.id;
    delete from fencepost.queue where id = q.id;
    return true;
end
$$;

-- Whether a queue holds anything: messages that count as there, delayed ones, dead letters.
create or replace function fencepost._holds(queue_id integer) returns boolean
language plpgsql stable
as $$
begin
    return exists (select from fencepost.delayed d where d.queue_id = _holds.queue_id)
        or exists (select from fencepost.dead d where d.queue_id = _holds.queue_id)
        or fencepost._stored(queue_id) > 0;
end
$$;

-- Stops handing out what is new in a queue, or hands it out again. True when that changed something.
create or replace function fencepost._set_paused(queue text, paused boolean) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    q fencepost.queue := fencepost._queue(queue);
    changed integer;
begin
    update fencepost.queue x set paused = _set_paused.paused, changes = x.changes + 1
        where x.id = q.id and x.paused <> _set_paused.paused;
    get diagnostics changed = row_count;
    if changed > 0 then
        perform fencepost._wake(fencepost._messages_topic(queue));
    end if;
    return changed > 0;
end
$$;

-- Stops handing out what is new. The queue still takes messages, and open batches can be finished.
create or replace function fencepost.pause_queue(queue text) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
begin
    return fencepost._set_paused(queue, true);
end
$$;

-- Hands out what is new again.
create or replace function fencepost.resume_queue(queue text) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
begin
    return fencepost._set_paused(queue, false);
end
$$;

-- Sets how long a queue keeps its messages: consumed ones, unread ones while nobody consumes, and how many bytes of these.
create or replace function fencepost.set_retention(
    queue text, retain_for interval default interval '0', retain_unread interval default interval '7 days',
    retain_unread_bytes bigint default 1073741824
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    q fencepost.queue := fencepost._queue(queue);
begin
    retain_for := fencepost._time('retain_for', retain_for, interval '0', interval '3650 days');
    retain_unread := fencepost._time('retain_unread', retain_unread, interval '0', interval '3650 days');
    perform fencepost._within('retain_unread_bytes', retain_unread_bytes, 0, 9223372036854775807);
    update fencepost.queue x set retain_for = set_retention.retain_for, retain_unread = set_retention.retain_unread,
            retain_unread_bytes = set_retention.retain_unread_bytes
        where x.id = q.id and (x.retain_for, x.retain_unread, x.retain_unread_bytes)
            <> (set_retention.retain_for, set_retention.retain_unread, set_retention.retain_unread_bytes);
end
$$;
