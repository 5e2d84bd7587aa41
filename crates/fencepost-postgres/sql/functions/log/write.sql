-- The function that appends: {q}_write(ids, payloads, keys, kinds, headers, created, expires) returns positions.
-- Positions rise in the order of the arrays. An id that is not NULL is one that a delayed message keeps.
-- Locks: none. Rows go into the segment whose turn it is; the others stay open for who looked a moment earlier.
create or replace function fencepost._write_function(log text, partitions integer, topic text) returns text
language sql stable
as $make$
select replace(replace(replace($text$
create function {q}_write(
    ids bigint[], payloads bytea[], keys text[], kinds text[], headers jsonb[], created timestamptz[], expires timestamptz[]
) returns bigint[]
language plpgsql
as $body$
declare
    positions bigint[] := array(select nextval('{q}_position') from generate_series(1, cardinality(payloads)));
    segment bigint := pg_sequence_last_value('{q}_turn') % 3;
begin
    if segment = 0 then
        insert into {q}_0 (position, id, partition, key, kind, payload, headers, created_at, expires_at)
        select m.position, coalesce(m.id, m.position), coalesce(fencepost._partition(m.key, {p}), m.position % {p}),
            m.key, m.kind, m.payload, nullif(m.headers, '{}'), m.created_at, m.expires_at
        from unnest(positions, ids, payloads, keys, kinds, headers, created, expires)
            m (position, id, payload, key, kind, headers, created_at, expires_at);
    elsif segment = 1 then
        insert into {q}_1 (position, id, partition, key, kind, payload, headers, created_at, expires_at)
        select m.position, coalesce(m.id, m.position), coalesce(fencepost._partition(m.key, {p}), m.position % {p}),
            m.key, m.kind, m.payload, nullif(m.headers, '{}'), m.created_at, m.expires_at
        from unnest(positions, ids, payloads, keys, kinds, headers, created, expires)
            m (position, id, payload, key, kind, headers, created_at, expires_at);
    else
        insert into {q}_2 (position, id, partition, key, kind, payload, headers, created_at, expires_at)
        select m.position, coalesce(m.id, m.position), coalesce(fencepost._partition(m.key, {p}), m.position % {p}),
            m.key, m.kind, m.payload, nullif(m.headers, '{}'), m.created_at, m.expires_at
        from unnest(positions, ids, payloads, keys, kinds, headers, created, expires)
            m (position, id, payload, key, kind, headers, created_at, expires_at);
    end if;
    {wake}
    return positions;
end
$body$
$text$, '{q}', log), '{p}', partitions::text), '{wake}', fencepost._wake_statement(log, topic))
$make$;
