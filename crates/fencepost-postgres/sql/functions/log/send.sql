-- The function that sends one message to one queue, with nothing but static statements: {q}_send(...), arguments as fencepost.send has
-- them without the queue. What is out of the ordinary goes the longer way.
-- Who sleeps on the queue is woken with the commit; the two texts for that are put in once.
-- Locks: none.
create or replace function fencepost._send_function(log text, queue_id integer, partitions integer, topic text) returns text
language sql immutable
as $make$
select replace(replace(replace(replace(replace($text$
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
    if pg_sequence_last_value('{a}') > date_part('epoch', clock_timestamp()) * 1000000 then
        perform pg_notify('fencepost', '{h}');
    end if;
    return id;
end
$body$
$text$, '{q}', log), '{p}', partitions::text), '{id}', queue_id::text),
    '{h}', fencepost._topic_hash(topic)::text), '{a}', 'fencepost.asleep_' || substr(log, 11))
$make$;

-- {q}_send_many(...): appends messages with everything they can carry, in order, all or none, and returns their ids. Arguments as
-- fencepost._send_many has them without the queue. What is due later goes the longer way.
-- Locks: none.
create or replace function fencepost._send_many_function(log text, queue_id integer) returns text
language sql immutable
as $make$
select replace(replace($text$
create function {q}_send_many(
    payloads bytea[], keys text[], kinds text[], headers text[],
    due_in bigint[], due_at timestamptz[], expires_in bigint[], expires_at timestamptz[]
) returns bigint[]
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $body$
declare
    maps jsonb[] := headers::jsonb[];
begin
    perform fencepost._check_message(m.payload, m.key, m.kind, m.headers) from unnest(payloads, keys, kinds, maps) m (payload, key, kind, headers)
        where not fencepost._is_plain(m.payload, m.key, m.kind, m.headers);
    if cardinality(due_in) + cardinality(due_at) + cardinality(expires_in) + cardinality(expires_at) = 0 then
        return {q}_write(null, payloads, keys, kinds, maps, array_fill(fencepost._clock(), array[cardinality(payloads)]), null);
    end if;
    return fencepost._send({id}, payloads, keys, kinds, maps, fencepost._spans(due_in), due_at, fencepost._spans(expires_in), expires_at);
end
$body$
$text$, '{q}', log), '{id}', queue_id::text)
$make$;
