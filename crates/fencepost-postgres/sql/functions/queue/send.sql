-- Refuses what cannot be a message: payloads over 1 MiB, headers that are no small map of texts.
create or replace function fencepost._check_message(payload bytea, key text, kind text, headers jsonb) returns void
language plpgsql immutable
as $$
declare
    size bigint;
begin
    if payload is null then
        perform fencepost._refuse('invalid_input', 'cannot send a payload that is NULL', jsonb_build_object('argument', 'payload'),
            'an empty payload is allowed');
    end if;
    if octet_length(payload) > 1048576 then
        perform fencepost._refuse('limit_exceeded', format('cannot send a payload of `%s` bytes', octet_length(payload)),
            jsonb_build_object('limit', 1048576),
            'a payload may have 1048576 bytes (1 MiB); keep larger data elsewhere and send where it is');
    end if;
    if key is not null then
        perform fencepost._name('a key', key);
    end if;
    perform fencepost._name('a message kind', kind);
    if headers is null or headers = '{}' then
        return;
    end if;
    if jsonb_typeof(headers) <> 'object'
        or exists (select from jsonb_each(headers) h where h.key = '' or jsonb_typeof(h.value) <> 'string') then
        perform fencepost._refuse('invalid_input', 'cannot use the headers: they are not a map of names to texts',
            jsonb_build_object('argument', 'headers'), 'allowed is a JSON object whose values are strings and whose names are not empty');
    end if;
    select sum(octet_length(h.key) + octet_length(h.value)) into size from jsonb_each_text(headers) h;
    if size > 16384 then
        perform fencepost._refuse('limit_exceeded', format('cannot send headers of `%s` bytes', size),
            jsonb_build_object('limit', 16384), 'all header names and values of a message may have 16384 bytes together');
    end if;
end
$$;

-- Whether a message is so plain that nothing else has to be checked. Part of the statement that calls it, as the check is not.
create or replace function fencepost._is_plain(payload bytea, key text, kind text, headers jsonb) returns boolean
language sql immutable
as $$
    select coalesce(octet_length(payload) <= 1048576 and kind = 'default' and (headers is null or headers = '{}')
        and (key is null or octet_length(key) <= 255 and key ~ '^[[:graph:]]+$'), false)
$$;

-- Appends messages in order, all or none, and returns their ids. What is due later is held back under its id.
-- `due_in` and `expires_in` count from the send; `due_at` and `expires_at` are instants. All arrays but the payloads may be NULL.
-- Locks: none.
create or replace function fencepost._send(
    queue_id integer, payloads bytea[], keys text[], kinds text[], headers jsonb[],
    due_in interval[], due_at timestamptz[], expires_in interval[], expires_at timestamptz[]
) returns bigint[]
language plpgsql
as $$
declare
    moment timestamptz := fencepost._clock();
    many integer := cardinality(payloads);
    dues timestamptz[];
    ends timestamptz[];
    ids bigint[];
    one bigint[];
    early integer;
begin
    if due_in is not null or due_at is not null then
        dues := array(select case when d > moment then d end
            from unnest(due_in, due_at) with ordinality u (span, instant, n), coalesce(instant, moment + span) d order by n);
    end if;
    if expires_in is not null or expires_at is not null then
        ends := array(select coalesce(instant, moment + span) from unnest(expires_in, expires_at) with ordinality u (span, instant, n) order by n);
    end if;
    if dues is null or array_remove(dues, null) = '{}' then
        execute 'select fencepost.q' || queue_id || '_write(null, $1, $2, $3, $4, $5, $6)' into ids
            using payloads, keys, kinds, headers, array_fill(moment, array[many]), ends;
        return ids;
    end if;
    select n into early from unnest(dues, ends) with ordinality u (due, ended, n) where ended <= due limit 1;
    if early is not null then
        perform fencepost._refuse('invalid_input',
            format('cannot send a message that expires `%s` before it is due', dues[early] - ends[early]),
            jsonb_build_object('argument', 'expires'), 'a message expires after it is due, or not at all');
    end if;
    -- One by one, since the ids have to rise with the input.
    for n in 1..many loop
        if dues[n] is null then
            execute 'select fencepost.q' || queue_id || '_write(null, $1, $2, $3, $4, $5, $6)' into one
                using payloads[n:n], keys[n:n], kinds[n:n], headers[n:n], array[moment], ends[n:n];
            ids := ids || one;
        else
            ids := ids || fencepost._hold(queue_id, payloads[n], keys[n], kinds[n], headers[n], moment, ends[n], dues[n]);
        end if;
    end loop;
    return ids;
end
$$;

-- Holds one message back until it is due, and returns the id that it gets from the queue's sequence.
create or replace function fencepost._hold(
    queue_id integer, payload bytea, key text, kind text, headers jsonb, created timestamptz, ends timestamptz, due timestamptz
) returns bigint
language plpgsql
as $$
declare
    parts integer := (select partitions from fencepost.queue where id = _hold.queue_id);
    own_id bigint := nextval('fencepost.q' || queue_id || '_position');
begin
    insert into fencepost.delayed (queue_id, id, partition, key, kind, payload, headers, created_at, expires_at, due_at)
    values (_hold.queue_id, own_id, coalesce(fencepost._partition(_hold.key, parts), own_id % parts), _hold.key, _hold.kind,
        _hold.payload, nullif(_hold.headers, '{}'), created, ends, due);
    return own_id;
end
$$;

-- Appends one message, or holds it back, and returns its id.
create or replace function fencepost._send_one(
    queue_id integer, payload bytea, key text, kind text, headers jsonb, delay interval, expires_in interval
) returns bigint
language plpgsql
as $$
begin
    perform fencepost._check_message(payload, key, kind, headers);
    if delay is not null then
        delay := fencepost._time('delay', delay, interval '0', interval '365 days');
    end if;
    if expires_in is not null then
        expires_in := fencepost._time('expires_in', expires_in, interval '0', interval '365 days');
    end if;
    return (fencepost._send(queue_id, array[payload], array[key], array[kind], array[headers],
        case when delay is not null then array[delay] end, null, case when expires_in is not null then array[expires_in] end, null))[1];
end
$$;

-- Appends one message and returns its id.
create or replace function fencepost._any_send(
    queue text, payload bytea, key text, kind text, headers jsonb, delay interval, lane integer, expires_in interval
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    q integer := (select x.id from fencepost.queue x where x.name = queue);
    id bigint;
begin
    if q is null then
        q := fencepost._queue_number(queue);
    end if;
    if lane is distinct from 0 then
        perform fencepost._within('lane', lane, 0, 3);
    end if;
    execute 'select fencepost.q' || q || '_send($1, $2, $3, $4, $5, $6)' into id
        using payload, key, kind, headers, delay, expires_in;
    return id;
end
$$;

-- Refuses columns of a batch that do not fit.
create or replace function fencepost._check_columns(payloads text[], keys text[]) returns void
language plpgsql immutable
as $$
begin
    if payloads is null or (keys is not null and cardinality(keys) <> cardinality(payloads)) then
        perform fencepost._refuse('invalid_input',
            format('cannot send `%s` payloads with `%s` keys', coalesce(cardinality(payloads)::text, 'NULL'), cardinality(keys)),
            jsonb_build_object('argument', 'keys'), 'give one key a payload, NULL for those without one, or no keys at all');
    end if;
end
$$;

-- Appends texts in order, all or none, and returns their ids in input order.
create or replace function fencepost._any_send_batch(queue text, payloads text[], keys text[], kind text) returns bigint[]
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    q integer := (select x.id from fencepost.queue x where x.name = queue);
    ids bigint[];
begin
    if q is null then
        q := fencepost._queue_number(queue);
    end if;
    perform fencepost._check_columns(payloads, keys);
    if cardinality(payloads) = 0 then
        return '{}';
    end if;
    execute 'select fencepost.q' || q || '_send_batch($1, $2, $3)' into ids using payloads, keys, kind;
    return ids;
end
$$;
