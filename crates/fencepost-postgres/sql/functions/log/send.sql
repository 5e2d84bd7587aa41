-- The function that sends one message to one queue, with nothing but static statements: {q}_send(...), arguments as fencepost.send has
-- them without the queue. What is out of the ordinary goes the longer way.
-- Locks: none.
create or replace function fencepost._send_function(log text, queue_id integer, partitions integer, topic text) returns text
language sql stable
as $make$
select replace(replace(replace(replace($text$
create function {q}_send(
    payload bytea, key text default null, kind text default 'default', headers jsonb default '{}', delay interval default null,
    expires_in interval default null
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $body$
declare
    id bigint;
    segment bigint;
begin
    if delay is not null or expires_in is not null then
        return fencepost._send_one({id}, payload, key, kind, headers, delay, expires_in);
    end if;
    if octet_length(payload) <= 1048576 and headers = '{}' and kind = 'default'
        and (key is null or octet_length(key) <= 255 and key ~ '^[[:graph:]]+$') then
        headers := null;
    else
        perform fencepost._check_message(payload, key, kind, headers);
        headers := nullif(headers, '{}');
    end if;
    id := nextval('{q}_position');
    segment := pg_sequence_last_value('{q}_turn') % 3;
    if segment = 0 then
        insert into {q}_0 (position, id, partition, key, kind, payload, headers, created_at)
        values (id, id, coalesce(fencepost._partition(key, {p}), id % {p}), key, kind, payload, headers, fencepost._clock());
    elsif segment = 1 then
        insert into {q}_1 (position, id, partition, key, kind, payload, headers, created_at)
        values (id, id, coalesce(fencepost._partition(key, {p}), id % {p}), key, kind, payload, headers, fencepost._clock());
    else
        insert into {q}_2 (position, id, partition, key, kind, payload, headers, created_at)
        values (id, id, coalesce(fencepost._partition(key, {p}), id % {p}), key, kind, payload, headers, fencepost._clock());
    end if;
    {wake}
    return id;
end
$body$
$text$, '{q}', log), '{p}', partitions::text), '{id}', queue_id::text), '{wake}', fencepost._wake_statement(log, topic))
$make$;

-- The statements that append plain messages: `payloads` with `keys` under `ids`, to the segment whose turn it is.
create or replace function fencepost._append_plain(payload text, kind text, partitions integer) returns text
language sql immutable
as $make$
select string_agg(format($text$%s then
        insert into {q}_%s (position, id, partition, key, kind, payload, created_at)
        select m.n, m.n, coalesce(fencepost._partition(m.k, %s), m.n %% %3$s), m.k, %s, %s, moment from unnest(ids, payloads, keys) m (n, b, k);
    $text$, chosen, n, partitions, kind, payload), '' order by n) || 'end if;'
from (values (0, 'if segment = 0'), (1, 'elsif segment = 1'), (2, 'elsif segment = 2')) c (n, chosen)
$make$;

-- {q}_send_batch(payloads, keys, kind): appends texts in order, all or none, and returns their ids.
-- {q}_send_many(...): the same with everything that messages can carry. Arguments as fencepost._send_many has them without the queue.
-- What is out of the ordinary goes the longer way. The characters of all keys are looked at together.
-- Locks: none.
create or replace function fencepost._send_many_functions(log text, queue_id integer, partitions integer, topic text) returns text
language sql stable
as $make$
select replace(replace(replace(replace($text$
create function {q}_send_batch(payloads text[], keys text[], kind text) returns bigint[]
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $body$
declare
    ids bigint[];
    moment timestamptz := fencepost._clock();
    segment bigint;
begin
    if kind is distinct from 'default' then
        perform fencepost._name('a message kind', kind);
    end if;
    if not ({plain}) then
        perform fencepost._check_message(convert_to(m.b, 'UTF8'), m.k, kind, null) from unnest(payloads, keys) m (b, k);
    end if;
    ids := array(select nextval('{q}_position') from generate_series(1, cardinality(payloads)));
    segment := pg_sequence_last_value('{q}_turn') % 3;
    $text$ || fencepost._append_plain($$convert_to(m.b, 'UTF8')$$, 'kind', partitions) || $text$
    {wake}
    return ids;
end
$body$;

create function {q}_send_many(
    payloads bytea[], keys text[], kinds text[], headers text[],
    due_in bigint[], due_at timestamptz[], expires_in bigint[], expires_at timestamptz[]
) returns bigint[]
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $body$
declare
    ids bigint[];
    moment timestamptz;
    segment bigint;
    maps jsonb[];
begin
    if cardinality(kinds) + cardinality(headers) + cardinality(due_in) + cardinality(due_at) + cardinality(expires_in) + cardinality(expires_at) > 0
        or not ({plain}) then
        kinds := coalesce(nullif(kinds, '{}'), array_fill('default'::text, array[cardinality(payloads)]));
        maps := nullif(headers, '{}')::jsonb[];
        perform fencepost._check_message(m.payload, m.key, m.kind, m.headers)
            from unnest(payloads, keys, kinds, maps) m (payload, key, kind, headers)
            where not fencepost._is_plain(m.payload, m.key, m.kind, m.headers);
        return fencepost._send({id}, payloads, keys, kinds, maps, fencepost._spans(due_in), due_at, fencepost._spans(expires_in), expires_at);
    end if;
    moment := fencepost._clock();
    ids := array(select nextval('{q}_position') from generate_series(1, cardinality(payloads)));
    segment := pg_sequence_last_value('{q}_turn') % 3;
    $text$ || fencepost._append_plain('m.b', $$'default'$$, partitions) || $text$
    {wake}
    return ids;
end
$body$
$text$,
    '{plain}', $$not exists (
            select from unnest(payloads, keys) u (b, k)
            where (octet_length(b) <= 1048576 and (k is null or octet_length(k) between 1 and 255)) is not true)
        and coalesce(array_to_string(keys, '') ~ '^[[:graph:]]*$', true)$$),
    '{wake}', fencepost._wake_statement(log, topic)), '{q}', log), '{id}', queue_id::text)
$make$;

-- {q}_send_once(...): an idempotent send. Arguments as fencepost._send_one_once has them without the queue.
create or replace function fencepost._send_once_function(log text, queue_id integer) returns text
language sql immutable
as $make$
select replace(replace($text$
create function {q}_send_once(
    payload bytea, key text, kind text, headers text, idempotency_key text, ttl interval,
    due_in bigint, due_at timestamptz, expires_in bigint, expires_at timestamptz, out id bigint, out deduplicated boolean
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $body$
begin
    select s.id, s.deduplicated into id, deduplicated
        from fencepost._any_send_one_once((select q.name from fencepost.queue q where q.id = {id}),
            payload, key, kind, headers, idempotency_key, ttl, due_in, due_at, expires_in, expires_at) s;
end
$body$
$text$, '{q}', log), '{id}', queue_id::text)
$make$;

-- The statement that wakes who sleeps on a queue, with the commit.
create or replace function fencepost._wake_statement(log text, topic text) returns text
language sql stable
as $make$
select format($text$if pg_sequence_last_value('fencepost.asleep_%s') > date_part('epoch', clock_timestamp()) * 1000000 then
        perform pg_notify('fencepost', '%s');
    end if;$text$, substr(log, 11), fencepost._topic_hash(topic))
$make$;
