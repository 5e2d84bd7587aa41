-- Sends, by those who may send to any queue or were granted the queue's own functions.
-- What is called most pins no search path, which takes longer than the rest of it: every name in it says where it is, and there is no operator.

-- A send by the queue's own function.
create or replace function fencepost._send_granted(
    queue text, payload bytea, key text, kind text, headers jsonb, delay interval, lane integer, expires_in interval
) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    id bigint;
begin
    perform fencepost._within('lane', lane, 0, 3);
    execute 'select fencepost.q' || fencepost._queue_number(queue) || '_send($1, $2, $3, $4, $5, $6)' into id
        using payload, key, kind, headers, delay, expires_in;
    return id;
end
$$;

-- Appends one message and returns its id.
create or replace function fencepost.send(
    queue text, payload bytea, key text default null, kind text default 'default', headers jsonb default '{}',
    delay interval default null, lane integer default 0, expires_in interval default null
) returns bigint
language plpgsql
as $$
begin
    if pg_catalog.has_function_privilege('fencepost._any_send'::pg_catalog.regproc, 'execute') then
        return fencepost._any_send(queue, payload, key, kind, headers, delay, lane, expires_in);
    end if;
    return fencepost._send_granted(queue, payload, key, kind, headers, delay, lane, expires_in);
end
$$;

-- The same with a text.
create or replace function fencepost.send(
    queue text, payload text, key text default null, kind text default 'default', headers jsonb default '{}',
    delay interval default null, lane integer default 0, expires_in interval default null
) returns bigint
language plpgsql
as $$
begin
    if pg_catalog.has_function_privilege('fencepost._any_send'::pg_catalog.regproc, 'execute') then
        return fencepost._any_send(queue, pg_catalog.convert_to(payload, 'UTF8'), key, kind, headers, delay, lane, expires_in);
    end if;
    return fencepost._send_granted(queue, pg_catalog.convert_to(payload, 'UTF8'), key, kind, headers, delay, lane, expires_in);
end
$$;

-- The same with JSON, stored as its text.
create or replace function fencepost.send(
    queue text, payload jsonb, key text default null, kind text default 'default', headers jsonb default '{}',
    delay interval default null, lane integer default 0, expires_in interval default null
) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return fencepost.send(queue, convert_to(payload::text, 'UTF8'), key, kind, headers, delay, lane, expires_in);
end
$$;

-- Appends texts in order, all or none, and returns their ids in input order.
create or replace function fencepost.send_batch(queue text, payloads text[], keys text[] default null, kind text default 'default')
returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    ids bigint[];
begin
    if has_function_privilege('fencepost._any_send_batch'::regproc, 'execute') then
        return fencepost._any_send_batch(queue, payloads, keys, kind);
    end if;
    perform fencepost._check_columns(payloads, keys);
    execute 'select fencepost.q' || fencepost._queue_number(queue) || '_send_batch($1, $2, $3)' into ids using payloads, keys, kind;
    return ids;
end
$$;

-- For drivers: appends messages with everything they can carry, in order, all or none. Delays count from the send, in
-- microseconds; an array that says nothing of any message is empty.
create or replace function fencepost._send_many(
    queue text, payloads bytea[], keys text[], kinds text[], headers text[],
    due_in bigint[], due_at timestamptz[], expires_in bigint[], expires_at timestamptz[]
) returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    ids bigint[];
begin
    if has_function_privilege('fencepost._any_send_many'::regproc, 'execute') then
        return fencepost._any_send_many(queue, payloads, keys, kinds, headers, due_in, due_at, expires_in, expires_at);
    end if;
    execute 'select fencepost.q' || fencepost._queue_number(queue) || '_send_many($1, $2, $3, $4, $5, $6, $7, $8)' into ids
        using payloads, keys, kinds, headers, due_in, due_at, expires_in, expires_at;
    return ids;
end
$$;

-- For drivers: an idempotent send with everything that a message can carry.
create or replace function fencepost._send_one_once(
    queue text, payload bytea, key text, kind text, headers text, idempotency_key text, ttl interval,
    due_in bigint, due_at timestamptz, expires_in bigint, expires_at timestamptz, out id bigint, out deduplicated boolean
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if has_function_privilege('fencepost._any_send_one_once'::regproc, 'execute') then
        select s.id, s.deduplicated into id, deduplicated
            from fencepost._any_send_one_once(queue, payload, key, kind, headers, idempotency_key, ttl, due_in, due_at, expires_in, expires_at) s;
        return;
    end if;
    execute 'select s.id, s.deduplicated from fencepost.q' || fencepost._queue_number(queue)
        || '_send_once($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) s'
        into id, deduplicated using payload, key, kind, headers, idempotency_key, ttl, due_in, due_at, expires_in, expires_at;
end
$$;

-- Appends one message unless the queue remembers the idempotency key; a rolled back send leaves no trace.
create or replace function fencepost.send_once(
    queue text, payload text, idempotency_key text, ttl interval default interval '1 day', key text default null,
    kind text default 'default', out id bigint, out deduplicated boolean
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    select s.id, s.deduplicated into id, deduplicated
        from fencepost._send_one_once(queue, convert_to(payload, 'UTF8'), key, kind, null, idempotency_key, ttl, null, null, null, null) s;
end
$$;
