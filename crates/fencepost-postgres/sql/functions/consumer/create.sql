-- Where a consumer or a reader begins: a cursor, and the id that nothing up to may be delivered, if the start is one.
-- `latest` is the highest position taken by whoever, with the current snapshot: what commits later is delivered.
create or replace function fencepost._start(q fencepost.queue, start text, out at fencepost.cursor, out after_id bigint)
language plpgsql
as $$
declare
    asked bigint;
    since timestamptz;
begin
    if start = 'earliest' then
        -- Nothing is late for who has nothing behind it.
        at := row(fencepost._removed((q).id), case when fencepost._removed((q).id) = 0 then '3:3:' else fencepost._snapshot()::text end, null, null);
        return;
    elsif start = 'latest' then
        at := row(fencepost._appended((q).id), fencepost._snapshot(), null, null);
        return;
    elsif start ~ '^id:\d{1,18}$' then
        asked := substr(start, 4)::bigint;
        after_id := asked;
    elsif start ~ '^p\d{1,18}$' then
        asked := substr(start, 2)::bigint;
    elsif start ~ '^p\d{1,18}/[\d:,;]+$' then
        asked := substr(split_part(start, '/', 1), 2)::bigint;
        if asked < fencepost._removed((q).id) then
            perform fencepost._gone(q, asked);
        end if;
        begin
            at := fencepost._known(fencepost._resumed(asked, split_part(start, '/', 2)));
        exception when data_exception then
            perform fencepost._refuse('invalid_input', format('cannot use `%s` as a checkpoint', left(start, 40)),
                jsonb_build_object('argument', 'start'), 'allowed is what a page told, whole');
        end;
        return;
    else
        begin
            if start !~ '^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$' then
                raise invalid_datetime_format;
            end if;
            since := start::timestamptz;
        exception when data_exception then
            perform fencepost._refuse('invalid_input', format('cannot start at `%s`', left(start, 40)),
                jsonb_build_object('argument', 'start'),
                'allowed are `earliest`, `latest`, `id:N`, a time such as 2026-01-31T08:00:00Z, or a message''s position');
        end;
        asked := coalesce(fencepost._first_since(q, since) - 1, fencepost._appended((q).id));
        at := row(asked, fencepost._snapshot(), null, null);
        return;
    end if;
    if asked < fencepost._removed((q).id) then
        perform fencepost._gone(q, asked);
    end if;
    at := row(asked, fencepost._snapshot(), null, null);
end
$$;

-- Raises `position_gone` with the first position there is.
create or replace function fencepost._gone(q fencepost.queue, asked bigint) returns void
language plpgsql
as $$
declare
    first text := coalesce('p' || fencepost._first(q), 'none');
begin
    perform fencepost._refuse('position_gone',
        format('cannot read the queue `%s` from `p%s`: messages after it were removed', (q).name, asked),
        jsonb_build_object('queue', (q).name, 'first_position', first),
        format('the first message there is sits at `%s`; `earliest` starts with it', first));
end
$$;

-- Makes a consumer with all its slots at one position. True: made; false: it was there with the same settings; otherwise `conflict`.
-- Locks: the queue's row FOR SHARE, so that it is not dropped meanwhile and nothing is removed from under the start; the consumer's name.
create or replace function fencepost.create_consumer(
    queue text, consumer text, slots integer default 1, start text default 'earliest', on_failure text default 'skip',
    mode text default 'ordered', max_attempts integer default 10, max_crashes integer default 5, backoff interval default interval '1 s'
) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    q fencepost.queue;
    present fencepost.consumer;
    made integer;
    first record;
    other text[];
begin
    perform fencepost._read_committed('create_consumer');
    perform fencepost._arrive();
    perform fencepost._name('a queue name', queue);
    perform fencepost._name('a consumer name', consumer);
    perform fencepost._within('slots', slots, 1, 256);
    perform fencepost._within('max_attempts', max_attempts, 1, 1000);
    perform fencepost._within('max_crashes', max_crashes, 1, 100);
    backoff := fencepost._time('backoff', backoff, interval '1 millisecond', interval '24 hours');
    if on_failure is null or on_failure not in ('skip', 'pause') then
        perform fencepost._refuse('invalid_input', format('cannot use `%s` as a failure policy', coalesce(on_failure, 'NULL')),
            jsonb_build_object('argument', 'on_failure'), 'allowed are `skip` and `pause`');
    end if;
    if mode is distinct from 'ordered' then
        perform fencepost._refuse('unsupported', format('cannot create a consumer of mode `%s`', coalesce(mode, 'NULL')),
            jsonb_build_object('argument', 'mode'), 'allowed is `ordered`');
    end if;
    if start is null then
        perform fencepost._refuse('invalid_input', 'cannot start at `NULL`', jsonb_build_object('argument', 'start'),
            'allowed are `earliest`, `latest`, `id:N`, a time such as 2026-01-31T08:00:00Z, or a message''s position');
    end if;
    loop
        select * into q from fencepost.queue x where x.name = queue for share;
        exit when q.id is not null;
        -- RACE: it may have been made since.
        perform fencepost._queue(queue);
    end loop;
    if slots > q.partitions then
        perform fencepost._refuse('invalid_input',
            format('cannot give `%s` slots to a queue of %s partitions: some would stay empty for ever', slots, q.partitions),
            jsonb_build_object('argument', 'slots', 'partitions', q.partitions),
            format('allowed are 1 to %s slots; a queue with more partitions allows more', q.partitions));
    end if;
    loop
        select * into present from fencepost.consumer c where c.queue_id = q.id and c.name = consumer;
        exit when present.id is not null;
        first := fencepost._start(q, start);
        insert into fencepost.consumer as c (queue_id, name, slots, on_failure, max_attempts, max_crashes, backoff, after_id)
            values (q.id, consumer, create_consumer.slots, create_consumer.on_failure, create_consumer.max_attempts,
                create_consumer.max_crashes, create_consumer.backoff, first.after_id)
            on conflict do nothing returning c.id into made;
        exit when made is not null;
        -- RACE: somebody else has made it meanwhile, and may have dropped it again.
    end loop;
    if made is not null then
        insert into fencepost.slot (consumer_id, slot) select made, n from generate_series(0, create_consumer.slots - 1) n;
        perform fencepost._append(row(made, n::smallint, 0, null, first.at, null, null, null, null, null, null, null, 0, null, 0, null, null))
            from generate_series(0, create_consumer.slots - 1) n;
        return true;
    end if;
    other := case
        when present.slots <> slots then array['slots', slots::text, present.slots::text]
        when present.on_failure <> on_failure then array['on_failure', on_failure, present.on_failure]
        when present.max_attempts <> max_attempts then array['max_attempts', max_attempts::text, present.max_attempts::text]
        when present.max_crashes <> max_crashes then array['max_crashes', max_crashes::text, present.max_crashes::text]
        when present.backoff <> backoff then array['backoff', fencepost._span(backoff), fencepost._span(present.backoff)]
    end;
    if other is not null then
        perform fencepost._refuse('conflict',
            format('cannot create the consumer `%s/%s` with %s `%s`: it has `%s`', queue, consumer, other[1], other[2], other[3]),
            jsonb_build_object('consumer', queue || '/' || consumer, other[1], other[3]),
            'use it as it is, or another name; dropping it forgets its position');
    end if;
    return false;
end
$$;

-- Drops a consumer with all its slots. True: dropped; false: not there. Without force `open_batch` while a batch is open and `conflict`
-- while a slot is held; the first slot in order that refuses is the answer.
-- Locks: the consumer's row FOR NO KEY UPDATE, so that who owns a slot can still set messages aside; then its slots FOR UPDATE, in order,
-- so it waits for guards and finishes before or after every other transition.
create or replace function fencepost.drop_consumer(queue text, consumer text, force boolean default false) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    q fencepost.queue;
    present fencepost.consumer;
    s fencepost.slot;
    st fencepost.state_0;
    named text := queue || '/' || consumer;
begin
    perform fencepost._read_committed('drop_consumer');
    perform fencepost._name('a queue name', queue);
    perform fencepost._name('a consumer name', consumer);
    select * into q from fencepost.queue x where x.name = queue for key share;
    if q.id is null then
        return false;
    end if;
    select * into present from fencepost.consumer c where c.queue_id = q.id and c.name = consumer for no key update;
    if present.id is null then
        return false;
    end if;
    for s in select * from fencepost.slot x where x.consumer_id = present.id order by x.slot for update loop
        exit when coalesce(force, false);
        st := fencepost._state(present.id, s.slot);
        if s.worker is not null and s.generation = fencepost._generation() and st.expires_at > fencepost._clock() and st.batch_id is null then
            perform fencepost._refuse('conflict', format('cannot drop_consumer: slot %s of consumer `%s` is held by a live owner', s.slot, named),
                jsonb_build_object('consumer', named, 'slot', s.slot),
                'stop its workers first, or force it: their calls then answer `not_found`');
        elsif st.batch_id is not null then
            perform fencepost._refuse('open_batch',
                format('cannot drop_consumer on slot %s of consumer `%s`: its batch `%s` is open', s.slot, named, st.batch_id),
                jsonb_build_object('consumer', named, 'slot', s.slot, 'batch_id', st.batch_id),
                'ack the batch first, or abandon the slot to hand the batch to the next claimant at once');
        end if;
    end loop;
    perform fencepost._drop_consumer(present.id);
    perform fencepost._wake(fencepost._slots_topic(queue, consumer));
    return true;
end
$$;

-- Removes a consumer with everything of it but its dead letters.
create or replace function fencepost._drop_consumer(consumer_id integer) returns void
language plpgsql
as $$
begin
    delete from fencepost.consumer c where c.id = _drop_consumer.consumer_id;
    delete from fencepost.state_0 s where s.consumer_id = _drop_consumer.consumer_id;
    delete from fencepost.state_1 s where s.consumer_id = _drop_consumer.consumer_id;
end
$$;
