-- What tells two messages apart for an idempotent send: a SHA-256 over key, kind, payload and headers, each with its length before it.
create or replace function fencepost._digest(key text, kind text, payload bytea, headers jsonb) returns bytea
language sql immutable
as $$
    select pg_catalog.sha256(
        pg_catalog.int8send(octet_length(k)) || k || pg_catalog.int8send(octet_length(d)) || d
        || pg_catalog.int8send(octet_length(payload)) || payload
        || coalesce((
            select string_agg(pg_catalog.int8send(octet_length(n)) || n || pg_catalog.int8send(octet_length(v)) || v, '' order by n)
            from (
                select pg_catalog.convert_to(h.key, 'UTF8') n, pg_catalog.convert_to(h.value, 'UTF8') v
                from pg_catalog.jsonb_each_text(coalesce(headers, '{}')) h
            ) h), ''))
    from (select pg_catalog.convert_to(coalesce(key, ''), 'UTF8') k, pg_catalog.convert_to(kind, 'UTF8') d) parts
$$;

-- Appends one message unless the queue remembers the idempotency key; a rolled back send leaves no trace.
-- Locks: the row of the key, for which it waits a second at most when somebody sends under the same key at the same moment.
create or replace function fencepost._send_once(
    queue_id integer, queue text, payload bytea, key text, kind text, headers jsonb, idempotency_key text, ttl interval,
    due_in interval, due_at timestamptz, expires_in interval, expires_at timestamptz,
    out id bigint, out deduplicated boolean
)
language plpgsql
as $$
declare
    own_digest bytea := fencepost._digest(key, kind, payload, headers);
    first fencepost.once;
    bound text := current_setting('lock_timeout');
begin
    perform fencepost._read_committed('send_once');
    -- INVARIANT: the key is taken before the message is appended, so of two that come together only one appends.
    begin
        perform set_config('lock_timeout', '1s', true);
        loop
            insert into fencepost.once (queue_id, key, id, digest, expires_at)
            values (_send_once.queue_id, idempotency_key, 0, own_digest, 'infinity')
            on conflict do nothing;
            deduplicated := not found;
            select * into first from fencepost.once o
                where o.queue_id = _send_once.queue_id and o.key = idempotency_key for update;
            -- RACE: an expired key that stood in the way may be forgotten before it is locked.
            exit when first.queue_id is not null;
        end loop;
        perform set_config('lock_timeout', bound, true);
    exception when lock_not_available then
        perform fencepost._refuse('busy',
            format('cannot send to `%s` under the idempotency key `%s`: somebody else is just doing so', queue, idempotency_key),
            jsonb_build_object('queue', queue), 'try again: the answer is there when the other transaction has ended');
    end;
    if deduplicated and first.expires_at > fencepost._clock() then
        if first.digest <> own_digest then
            perform fencepost._refuse('conflict',
                format('cannot send to `%s` under the idempotency key `%s`: it stands for another message, `%s`',
                    queue, idempotency_key, first.id),
                jsonb_build_object('queue', queue, 'first_id', first.id),
                'payload, key, kind and headers have to be those of the first send; use another idempotency key for another message');
        end if;
        id := first.id;
        return;
    end if;
    deduplicated := false;
    id := (fencepost._send(queue_id, array[payload], array[key], array[kind], array[headers],
        array[due_in], array[due_at], array[expires_in], array[expires_at]))[1];
    update fencepost.once o set id = _send_once.id, digest = own_digest, expires_at = fencepost._clock() + ttl
        where o.queue_id = _send_once.queue_id and o.key = idempotency_key;
end
$$;
