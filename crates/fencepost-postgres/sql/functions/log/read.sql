-- The functions that read a log by the cursor rule. Each pins the planner: a plan made on empty tables would stay a sequential scan
-- for the session, and a forced plan must not be compiled.

-- {q}_late(parts, c, s, most, segment): rows at or below the cursor whose transactions finished between its snapshot and `s`, in
-- position order. `segment` limits it to one of the three tables.
-- They are found by transaction: those that were open in the cursor's snapshot, and everything from its xmax on, since xmax is the
-- latest COMPLETED transaction + 1 and a running one may be above it.
create or replace function fencepost._late_function(log text) returns text
language sql immutable
as $make$
select replace($text$
create function {q}_late(parts smallint[], c fencepost.cursor, s pg_snapshot, most bigint, segment integer default null)
returns setof fencepost.logged
language plpgsql stable rows 1
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $body$
declare
    ended xid8[] := fencepost._ended((c).b, s);
    newest xid8 := pg_snapshot_xmax((c).b);
    low bigint := coalesce((c).pos, 0);
    high bigint := (c).h;
begin
    if high = 0 or (ended = '{}' and newest = pg_snapshot_xmax(s)) then
        return;
    end if;
    return query
    select m.* from unnest(parts) p cross join lateral (
        select l.position, l.id, l.xid, l.partition, l.key, l.kind, l.payload, l.headers, l.created_at, l.expires_at from {q}_0 l
        where (segment is null or segment = 0) and l.partition = p and l.xid >= newest
            and l.position + 0 <= high and l.position + 0 > low and pg_visible_in_snapshot(l.xid, s)
        union all
        select l.position, l.id, l.xid, l.partition, l.key, l.kind, l.payload, l.headers, l.created_at, l.expires_at from {q}_1 l
        where (segment is null or segment = 1) and l.partition = p and l.xid >= newest
            and l.position + 0 <= high and l.position + 0 > low and pg_visible_in_snapshot(l.xid, s)
        union all
        select l.position, l.id, l.xid, l.partition, l.key, l.kind, l.payload, l.headers, l.created_at, l.expires_at from {q}_2 l
        where (segment is null or segment = 2) and l.partition = p and l.xid >= newest
            and l.position + 0 <= high and l.position + 0 > low and pg_visible_in_snapshot(l.xid, s)
        offset 0) m
    union all
    select m.* from unnest(parts) p cross join unnest(ended) x cross join lateral (
        select l.position, l.id, l.xid, l.partition, l.key, l.kind, l.payload, l.headers, l.created_at, l.expires_at from {q}_0 l
        where (segment is null or segment = 0) and l.partition = p and l.xid = x
            and l.position + 0 <= high and l.position + 0 > low
        union all
        select l.position, l.id, l.xid, l.partition, l.key, l.kind, l.payload, l.headers, l.created_at, l.expires_at from {q}_1 l
        where (segment is null or segment = 1) and l.partition = p and l.xid = x
            and l.position + 0 <= high and l.position + 0 > low
        union all
        select l.position, l.id, l.xid, l.partition, l.key, l.kind, l.payload, l.headers, l.created_at, l.expires_at from {q}_2 l
        where (segment is null or segment = 2) and l.partition = p and l.xid = x
            and l.position + 0 <= high and l.position + 0 > low
        offset 0) m
    order by position limit most;
end
$body$
$text$, '{q}', log)
$make$;

-- {q}_fresh_K(parts, h, upto, s, most, segment): rows above h and not above `upto`, finished in `s`, in position order, of at most K
-- partitions. One ordered branch a partition and segment, so that they are merged and nothing is read beyond `most`.
create or replace function fencepost._fresh_function(log text, branches integer) returns text
language sql immutable
as $make$
select replace(replace($text$
create function {q}_fresh_{k}(
    parts smallint[], h bigint, upto bigint, s pg_snapshot, most bigint, segment integer default null
) returns setof fencepost.logged
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $body$
begin
    return query
    select * from ($text$ || string_agg(format($branch$
        (select l.position, l.id, l.xid, l.partition, l.key, l.kind, l.payload, l.headers, l.created_at, l.expires_at from {q}_%s l
        where (segment is null or segment = %1$s) and l.partition = parts[%s] and l.position > h and l.position <= upto
            and pg_visible_in_snapshot(l.xid, s) order by l.position limit most)$branch$, segment, branch), ' union all ')
    || $text$) merged order by position limit most;
end
$body$
$text$, '{q}', log), '{k}', branches::text)
from generate_series(1, branches) branch, generate_series(0, 2) segment
$make$;

-- {q}_fresh(...) picks the function with enough branches; {q}_look(parts, c, upto, s, most) is what a receive reads: the late rows,
-- then the fresh ones.
create or replace function fencepost._look_function(log text, partitions integer) returns text
language sql immutable
as $make$
select replace($text$
create function {q}_fresh(
    parts smallint[], h bigint, upto bigint, s pg_snapshot, most bigint, segment integer default null
) returns setof fencepost.logged
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $body$
declare
    many integer := cardinality(parts);
begin
    $text$ || string_agg(format($branch$if many <= %1$s then
        return query select * from {q}_fresh_%1$s(parts, h, upto, s, most, segment);
    $branch$, k), 'els' order by k) || $text$end if;
end
$body$;

create function {q}_look(parts smallint[], c fencepost.cursor, upto bigint, s pg_snapshot, most bigint)
returns setof fencepost.logged
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $body$
declare
    taken bigint;
begin
    return query select * from {q}_late(parts, c, s, most);
    get diagnostics taken = row_count;
    if taken < most then
        return query select * from {q}_fresh(parts, (c).h, upto, s, most - taken);
    end if;
end
$body$
$text$, '{q}', log)
from (select 1 << i as k from generate_series(0, 8) i) pow where k = 1 or k / 2 < partitions
$make$;
