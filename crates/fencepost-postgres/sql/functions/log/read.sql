-- The functions that read a log by the cursor rule. Each returns an array of rows in position order, and pins the planner: a plan made on
-- empty tables would stay a sequential scan for the session, and a forced plan must not be compiled.

-- {q}_late(parts, c, s, most, segment): rows at or below the cursor whose transactions finished between its snapshot and `s`.
-- `segment` limits it to one of the three tables.
-- They are found by transaction: those that were open in the cursor's snapshot, and everything from its xmax on, since xmax is the
-- latest COMPLETED transaction + 1 and a running one may be above it. `position + 0` keeps the planner from walking the log instead.
create or replace function fencepost._late_function(log text) returns text
language sql immutable
as $make$
select replace($text$
create function {q}_late(parts smallint[], c fencepost.cursor, s pg_snapshot, most bigint, segment integer default null)
returns fencepost.logged[]
language plpgsql stable
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
        return '{}';
    end if;
    return array(
        select row(m.*)::fencepost.logged from (
            select l.* from unnest(parts) p cross join lateral ($text$ || string_agg(format($branch$
                select l.position, l.id, l.xid, l.partition, l.key, l.kind, l.payload, l.headers, l.created_at, l.expires_at
                from {q}_%1$s l
                where (segment is null or segment = %1$s) and l.partition = p and l.xid >= newest
                    and l.position + 0 <= high and l.position + 0 > low and pg_visible_in_snapshot(l.xid, s)$branch$, n), ' union all ' order by n)
            || $text$ offset 0) l
            union all
            select l.* from unnest(parts) p cross join unnest(ended) x cross join lateral ($text$ || string_agg(format($branch$
                select l.position, l.id, l.xid, l.partition, l.key, l.kind, l.payload, l.headers, l.created_at, l.expires_at
                from {q}_%1$s l
                where (segment is null or segment = %1$s) and l.partition = p and l.xid = x
                    and l.position + 0 <= high and l.position + 0 > low$branch$, n), ' union all ' order by n)
            || $text$ offset 0) l
        ) m order by m.position limit most);
end
$body$
$text$, '{q}', log)
from generate_series(0, 2) n
$make$;

-- {q}_fresh_K_S(parts, h, upto, s, most): rows above h and not above `upto`, finished in `s`, of at most K partitions, in the segments S.
-- One ordered branch a partition and segment, so that they are merged and nothing is read beyond `most`.
create or replace function fencepost._fresh_function(log text, branches integer, segments integer[]) returns text
language sql immutable
as $make$
select replace(replace(replace($text$
create function {q}_fresh_{k}_{s}(parts smallint[], h bigint, upto bigint, s pg_snapshot, most bigint) returns fencepost.logged[]
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
    return array(select row(m.*)::fencepost.logged from ($text$ || string_agg(format($branch$
        (select l.position, l.id, l.xid, l.partition, l.key, l.kind, l.payload, l.headers, l.created_at, l.expires_at from {q}_%s l
        where l.partition = parts[%s] and l.position > h and l.position <= upto
            and pg_visible_in_snapshot(l.xid, s) order by l.position limit most)$branch$, segment, branch), ' union all ')
    || $text$) m order by m.position limit most);
end
$body$
$text$, '{q}', log), '{k}', branches::text), '{s}', array_to_string(segments, ''))
from generate_series(1, branches) branch, unnest(segments) segment
$make$;

-- {q}_fresh(...) picks the function with enough branches over the segments that have rows, or over one of them.
create or replace function fencepost._pick_fresh_function(log text, partitions integer) returns text
language sql immutable
as $make$
select replace($text$
create function {q}_fresh(parts smallint[], h bigint, upto bigint, s pg_snapshot, most bigint, segment integer default null)
returns fencepost.logged[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $body$
declare
    many integer := cardinality(parts);
begin
    if pg_sequence_last_value('{q}_position') <= h then
        -- Nobody has taken a position since.
        return '{}';
    end if;
    $text$ || string_agg(format($branch$if many <= %1$s then
        return case segment
            when 0 then {q}_fresh_%1$s_0(parts, h, upto, s, most)
            when 1 then {q}_fresh_%1$s_1(parts, h, upto, s, most)
            when 2 then {q}_fresh_%1$s_2(parts, h, upto, s, most)
            else {q}_fresh_%1$s_012(parts, h, upto, s, most)
        end;
    $branch$, k), 'els' order by k) || $text$end if;
end
$body$
$text$, '{q}', log)
from (select 1 << i as k from generate_series(0, 8) i) powers where k = 1 or k / 2 < partitions
$make$;

-- {q}_look(parts, c, upto, s, most): what a receive reads: the late rows, then the fresh ones.
create or replace function fencepost._look_function(log text) returns text
language sql immutable
as $make$
select replace($text$
create function {q}_look(parts smallint[], c fencepost.cursor, upto bigint, s pg_snapshot, most bigint) returns fencepost.logged[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $body$
declare
    -- The one segment that has rows; NULL when more than one has.
    segment integer := case
        when not exists (select from {q}_1) then
            case when not exists (select from {q}_2) then 0 when not exists (select from {q}_0) then 2 end
        when not exists (select from {q}_0) and not exists (select from {q}_2) then 1
    end;
    late fencepost.logged[] := '{}';
begin
    -- Where nothing has ended since the cursor's snapshot nothing can be late.
    if (c).h > 0 and ((c).s is not null or (c).b::text <> s::text) then
        late := {q}_late(parts, c, s, most, segment);
    end if;
    if late = '{}' then
        return {q}_fresh(parts, (c).h, upto, s, most, segment);
    elsif cardinality(late) < most then
        return late || {q}_fresh(parts, (c).h, upto, s, most - cardinality(late), segment);
    end if;
    return late;
end
$body$
$text$, '{q}', log)
$make$;
