-- For drivers: appends messages with everything they can carry, in order, all or none. Delays count from the send, in
-- microseconds; an array that says nothing of any message is empty.
create or replace function fencepost._any_send_many(
    queue text, payloads bytea[], keys text[], kinds text[], headers text[],
    due_in bigint[], due_at timestamptz[], expires_in bigint[], expires_at timestamptz[]
) returns bigint[]
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    ids bigint[];
begin
    execute 'select fencepost.q' || fencepost._queue_number(queue) || '_send_many($1, $2, $3, $4, $5, $6, $7, $8)' into ids
        using payloads, keys, kinds, headers, due_in, due_at, expires_in, expires_at;
    return ids;
end
$$;

-- For drivers: an idempotent send with everything that a message can carry.
create or replace function fencepost._any_send_one_once(
    queue text, payload bytea, key text, kind text, headers text, idempotency_key text, ttl interval,
    due_in bigint, due_at timestamptz, expires_in bigint, expires_at timestamptz, out id bigint, out deduplicated boolean
)
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
    perform fencepost._check_message(payload, key, kind, headers::jsonb);
    perform fencepost._name('an idempotency key', idempotency_key);
    ttl := fencepost._time('ttl', ttl, interval '1 second', interval '365 days');
    select s.id, s.deduplicated into id, deduplicated
        from fencepost._send_once(q.id, q.name, payload, key, kind, headers::jsonb, idempotency_key, ttl,
            due_in * interval '1 microsecond', due_at, expires_in * interval '1 microsecond', expires_at) s;
end
$$;

-- Microseconds as lengths of time; NULL when all are.
create or replace function fencepost._spans(micros bigint[]) returns interval[]
language sql immutable
as $$ select nullif(array(select m * interval '1 microsecond' from unnest(micros) with ordinality u (m, n) order by n), '{}') $$;
