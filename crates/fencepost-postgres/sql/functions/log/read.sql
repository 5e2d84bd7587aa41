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

-- {q}_ordered_K_S(parts, h, upto, s, most): rows above h and not above `upto`, finished in `s`, of at most K partitions, in the segments S.
-- One ordered branch a partition and segment, so that they are merged and nothing is read beyond `most`.
create or replace function fencepost._ordered_function(log text, branches integer, segments integer[]) returns text
language sql immutable
as $make$
select replace(replace(replace($text$
create function {q}_ordered_{k}_{s}(parts smallint[], h bigint, upto bigint, s pg_snapshot, most bigint) returns fencepost.logged[]
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

-- {q}_window_S(parts, h, upto, s, most): the same for any number of partitions, all of them by one scan, since to start many takes longer
-- than to read a batch. Its rows have to be sorted, so all between h and `upto` are read.
create or replace function fencepost._window_function(log text, segments integer[]) returns text
language sql immutable
as $make$
select replace(replace($text$
create function {q}_window_{s}(parts smallint[], h bigint, upto bigint, s pg_snapshot, most bigint) returns fencepost.logged[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_indexscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $body$
begin
    return array(select row(m.*)::fencepost.logged from ($text$ || string_agg(format($branch$
        select l.position, l.id, l.xid, l.partition, l.key, l.kind, l.payload, l.headers, l.created_at, l.expires_at from {q}_%s l
        where l.partition = any(parts) and l.position > h and l.position <= upto and pg_visible_in_snapshot(l.xid, s)$branch$, segment), ' union all ')
    || $text$) m order by m.position limit most);
end
$body$
$text$, '{q}', log), '{s}', array_to_string(segments, ''))
from unnest(segments) segment
$make$;

-- {q}_fresh(...): rows above h and not above `upto`, finished in `s`, of all segments or of one.
-- Many partitions are looked through window by window, each as wide as what is missing takes at the density seen so far, so that little
-- more is read than is returned.
create or replace function fencepost._fresh_function(log text) returns text
language sql immutable
as $make$
select replace($text$
create function {q}_fresh(parts smallint[], h bigint, upto bigint, s pg_snapshot, most bigint, segment integer default null)
returns fencepost.logged[]
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $body$
declare
    -- What is finished in `s` has taken its position before.
    last bigint := least(upto, pg_sequence_last_value('{q}_position'));
    many bigint := cardinality(parts);
    rows fencepost.logged[] := '{}';
    more fencepost.logged[];
    low bigint := h;
    high bigint;
    width bigint := least(most, 10000);
begin
    if last <= h then
        return '{}';
    $text$ || string_agg(format($branch$elsif many <= %1$s then
        return case segment
            when 0 then {q}_ordered_%1$s_0(parts, h, last, s, most)
            when 1 then {q}_ordered_%1$s_1(parts, h, last, s, most)
            when 2 then {q}_ordered_%1$s_2(parts, h, last, s, most)
            else {q}_ordered_%1$s_012(parts, h, last, s, most)
        end;
    $branch$, k), '' order by k) || $text$end if;
    many := 0;
    loop
        high := least(low + width, last);
        more := case segment
            when 0 then {q}_window_0(parts, low, high, s, most - many)
            when 1 then {q}_window_1(parts, low, high, s, most - many)
            when 2 then {q}_window_2(parts, low, high, s, most - many)
            else {q}_window_012(parts, low, high, s, most - many)
        end;
        rows := case many when 0 then more else rows || more end;
        many := cardinality(rows);
        exit when many >= most or high >= last;
        width := case many when 0 then 4 * width else least(most - many, 10000) * (high - h) / many * 1.1 + 8 end;
        low := high;
    end loop;
    return rows;
end
$body$
$text$, '{q}', log)
from unnest(array[1, 2, 4]) k
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
