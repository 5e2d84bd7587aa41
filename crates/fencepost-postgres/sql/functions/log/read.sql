-- The functions that read a log by the cursor rule. All partitions are read by one scan, since to start one for each takes longer than to
-- read a batch; which of the three tables, by a choice between statements, since a scan of an empty table has to be started too.

-- `statement` for one segment or for all three, as a choice by the variable `segment`. {scan} stands there for the rows of `parts` that meet
-- `condition`, with `columns`.
create or replace function fencepost._by_segment(statement text, columns text, condition text) returns text
language sql immutable
as $make$
select string_agg(format('%s
            %s
        ', c.chosen, replace(statement, '{scan}', c.scan)), '' order by c.place) || 'end if;'
from (
    select w.place, w.chosen, '(' || string_agg(
        format('select %s from {q}_%s l where l.partition = any(parts) and %s', columns, n, condition), ' union all ' order by n) || ')' as scan
    from (values (0, 'if segment = 0 then'), (1, 'elsif segment = 1 then'), (2, 'elsif segment = 2 then'), (3, 'else')) w (place, chosen)
    join generate_series(0, 2) n on w.place in (n, 3)
    group by w.place, w.chosen) c
$make$;

-- {q}_late(parts, c, s, most, segment): rows at or below the cursor whose transactions finished between its snapshot and `s`, in the order of
-- positions.
-- They are found by transaction: those that were open in the cursor's snapshot, and everything from its xmax on, since xmax is the
-- latest COMPLETED transaction + 1 and a running one may be above it. `position + 0` keeps the planner from walking the log instead.
create or replace function fencepost._late_function(log text) returns text
language sql immutable
as $make$
select replace($text$
create function {q}_late(parts smallint[], c fencepost.cursor, s pg_snapshot, most bigint, segment integer default null)
returns fencepost.logged[]
language plpgsql stable
as $body$
declare
    ended xid8[] := fencepost._ended((c).b, s);
    newest xid8 := pg_snapshot_xmax((c).b);
    low bigint := coalesce((c).pos, 0);
    high bigint := (c).h;
    rows fencepost.logged[] := '{}';
    more fencepost.logged[];
begin
    if high = 0 then
        return '{}';
    end if;
    if newest <> pg_snapshot_xmax(s) then
        $text$ || fencepost._by_segment(
            'rows := array(select row(m.*)::fencepost.logged from {scan} m order by m.position limit most);',
            'l.position, l.id, l.xid, l.partition, l.key, l.kind, l.payload, l.headers, l.created_at, l.expires_at',
            'l.xid >= newest and l.position + 0 <= high and l.position + 0 > low and pg_visible_in_snapshot(l.xid, s)') || $text$
    end if;
    if ended <> '{}' then
        $text$ || fencepost._by_segment(
            'more := array(select row(m.*)::fencepost.logged from {scan} m order by m.position limit most);',
            'l.position, l.id, l.xid, l.partition, l.key, l.kind, l.payload, l.headers, l.created_at, l.expires_at',
            'l.xid = any(ended) and l.position + 0 <= high and l.position + 0 > low') || $text$
        if more <> '{}' then
            rows := array(select r from unnest(rows || more) r order by r.position limit most);
        end if;
    end if;
    return rows;
end
$body$
$text$, '{q}', log)
$make$;

-- {q}_segment(): the one segment that has rows; NULL when more than one has. By the files' sizes, as a look into a table costs more. A row
-- that can be seen has been written, and what is emptied has no length.
create or replace function fencepost._segment_function(log text) returns text
language sql immutable
as $make$
select replace($text$
create function {q}_segment() returns integer
language plpgsql stable
as $body$
begin
    return case
        when pg_relation_size('{q}_1') = 0 then
            case when pg_relation_size('{q}_2') = 0 then 0 when pg_relation_size('{q}_0') = 0 then 2 end
        when pg_relation_size('{q}_0') = 0 and pg_relation_size('{q}_2') = 0 then 1
    end;
end
$body$
$text$, '{q}', log)
$make$;

-- How wide the next window of a look is: as wide as what is missing takes at the density seen so far, so that little more is read than is
-- needed. `many` were found in the positions from `h` to `low`.
create or replace function fencepost._width(width bigint, many bigint, most bigint, h bigint, low bigint) returns bigint
language sql immutable
as $$ select case when many = 0 then 4 * width else (least(most - many, 10000) * (low - h) / many * 1.1)::bigint + 8 end $$;

-- {q}_fresh(...): rows above h and not above `upto`, finished in `s`, of all segments or of one, window by window.
create or replace function fencepost._fresh_function(log text) returns text
language sql immutable
as $make$
select replace($text$
create function {q}_fresh(parts smallint[], h bigint, upto bigint, s pg_snapshot, most bigint, segment integer default null)
returns fencepost.logged[]
language plpgsql stable
as $body$
declare
    -- What is finished in `s` has taken its position before.
    last bigint := least(upto, pg_sequence_last_value('{q}_position'));
    rows fencepost.logged[] := '{}';
    more fencepost.logged[];
    many bigint := 0;
    low bigint := h;
    high bigint;
    width bigint := least(most, 10000);
begin
    while low < last and many < most loop
        high := least(low + width, last);
        $text$ || fencepost._by_segment(
            'more := array(select row(m.*)::fencepost.logged from {scan} m order by m.position limit most - many);',
            'l.position, l.id, l.xid, l.partition, l.key, l.kind, l.payload, l.headers, l.created_at, l.expires_at',
            'l.position > low and l.position <= high and pg_visible_in_snapshot(l.xid, s)') || $text$
        rows := case many when 0 then more else rows || more end;
        many := cardinality(rows);
        low := high;
        width := fencepost._width(width, many, most, h, low);
    end loop;
    return rows;
end
$body$
$text$, '{q}', log)
$make$;

-- {q}_look(parts, c, upto, s, most): what a receive reads: the late rows, then the fresh ones.
create or replace function fencepost._look_function(log text) returns text
language sql immutable
as $make$
select replace($text$
create function {q}_look(parts smallint[], c fencepost.cursor, upto bigint, s pg_snapshot, most bigint) returns fencepost.logged[]
language plpgsql stable
as $body$
declare
    segment integer := {q}_segment();
    late fencepost.logged[] := '{}';
begin
    if fencepost._may_be_late(c, s) then
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

-- {q}_peek(parts, c, s, most, moment, after_id): what a look would find, without the messages: how many, the last position, the segment they are in,
-- and whether one of them is expired or not above `after_id`. Where some are late it looks, and returns the rows.
create or replace function fencepost._peek_function(log text) returns text
language sql immutable
as $make$
select replace($text$
create function {q}_peek(
    parts smallint[], c fencepost.cursor, s pg_snapshot, most bigint, moment timestamptz, after_id bigint,
    out many bigint, out last bigint, out segment integer, out any_void boolean, out rows fencepost.logged[]
)
language plpgsql stable
as $body$
declare
    taken bigint := pg_sequence_last_value('{q}_position');
    low bigint := (c).h;
    high bigint;
    width bigint := most;
    more bigint;
    furthest bigint;
    is_void boolean;
begin
    many := 0;
    any_void := false;
    segment := {q}_segment();
    if fencepost._may_be_late(c, s) and {q}_late(parts, c, s, 1, segment) <> '{}' then
        rows := {q}_look(parts, c, 9223372036854775807, s, most);
        many := cardinality(rows);
        any_void := exists (select from unnest(rows) r where r.expires_at <= moment or r.id <= after_id);
        return;
    end if;
    while low < taken and many < most loop
        high := least(low + width, taken);
        $text$ || fencepost._by_segment(
            'select count(*), max(w.position), bool_or(w.expires_at <= moment or w.id <= after_id) into more, furthest, is_void
                from (select * from {scan} m order by m.position limit most - many) w;',
            'l.position, l.id, l.expires_at',
            'l.position > low and l.position <= high and pg_visible_in_snapshot(l.xid, s)') || $text$
        many := many + more;
        last := coalesce(furthest, last);
        any_void := any_void or coalesce(is_void, false);
        low := high;
        width := fencepost._width(width, many, most, (c).h, low);
    end loop;
end
$body$
$text$, '{q}', log)
$make$;
