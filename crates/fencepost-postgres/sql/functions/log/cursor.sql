-- The cursor rule in its parts. docs/guide/postgres-log.md has the whole of it.

-- Whether a row is behind the cursor.
create or replace function fencepost._in(c fencepost.cursor, row_position bigint, row_xid xid8) returns boolean
language sql immutable
as $$
    select (row_position <= (c).h and pg_catalog.pg_visible_in_snapshot(row_xid, (c).b))
        or ((c).pos is not null and row_position <= (c).pos and pg_catalog.pg_visible_in_snapshot(row_xid, (c).s))
$$;

-- The snapshot under which the rows up to `c` were looked up.
create or replace function fencepost._seen(c fencepost.cursor) returns pg_snapshot
language sql immutable
as $$ select coalesce((c).s, (c).b) $$;

-- The highest position that `c` covers with the rows that were looked up last.
create or replace function fencepost._end(c fencepost.cursor) returns bigint
language sql immutable
as $$ select coalesce((c).pos, (c).h) $$;

-- The cursor after the rows between `c` and `e` at positions up to `cut`.
create or replace function fencepost._cut(c fencepost.cursor, e fencepost.cursor, cut bigint) returns fencepost.cursor
language sql immutable
as $$
    select case
        when cut >= fencepost._end(e) then e
        when cut > (c).h then row(cut, fencepost._seen(e), null, null)::fencepost.cursor
        else row((c).h, (c).b, fencepost._seen(e), greatest(cut, coalesce((c).pos, 0)))::fencepost.cursor
    end
$$;

-- What a checkpoint remembers beside its position, and the cursor that it stands for: the snapshot, and while a pass is under way its
-- snapshot and how far it got. Texts of digits, colons, commas and semicolons.
create or replace function fencepost._uncommitted(c fencepost.cursor) returns text
language sql immutable
as $$ select (c).b::text || coalesce(';' || (c).s::text || ';' || (c).pos, '') $$;

create or replace function fencepost._resumed(h bigint, uncommitted text) returns fencepost.cursor
language sql immutable
as $$
    select row(h, split_part(uncommitted, ';', 1)::pg_snapshot, nullif(split_part(uncommitted, ';', 2), '')::pg_snapshot,
        nullif(split_part(uncommitted, ';', 3), '')::bigint)::fencepost.cursor
$$;

-- The current snapshot. A caller that has written in this transaction may still write more, so its own transaction counts as
-- unfinished also where the snapshot would call it finished. In a copy the numbers may count as higher, see fencepost._xid.
create or replace function fencepost._snapshot() returns pg_snapshot
language plpgsql volatile
as $$
declare
    now_seen pg_snapshot := pg_current_snapshot();
    own xid8 := pg_current_xact_id_if_assigned();
    shift bigint := fencepost._xid_shift();
begin
    own := case when own < pg_snapshot_xmax(now_seen) then own end;
    if own is null and shift = 0 then
        return now_seen;
    end if;
    return (
        select format('%s:%s:%s', least(pg_snapshot_xmin(now_seen)::text::bigint, own::text::bigint) + shift,
            pg_snapshot_xmax(now_seen)::text::bigint + shift, string_agg((x::text::bigint + shift)::text, ',' order by x))
        from (select own as x where own is not null union select pg_snapshot_xip(now_seen)) running
    )::pg_snapshot;
end
$$;

-- The cursor of a checkpoint as far as this server can have told it. One of a timeline that was lost may know of transactions that this one
-- is still to have: a pass under its snapshot goes on under the current one. Positions have jumped over whatever was lost.
create or replace function fencepost._known(c fencepost.cursor) returns fencepost.cursor
language plpgsql volatile
as $$
declare
    now_seen pg_snapshot := fencepost._snapshot();
begin
    if pg_snapshot_xmax((c).s) > pg_snapshot_xmax(now_seen) then
        c.s := now_seen;
    end if;
    return c;
end
$$;

-- The transactions that were open in `b` and are finished in `s`.
create or replace function fencepost._ended(b pg_snapshot, s pg_snapshot) returns xid8[]
language plpgsql immutable
as $$
begin
    if pg_snapshot_xmin(b) = pg_snapshot_xmax(b) then
        return '{}';
    end if;
    return array(select x from pg_snapshot_xip(b) x where pg_visible_in_snapshot(x, s));
end
$$;

-- Whether rows may be late: where nothing has ended since the cursor's snapshot none can be.
create or replace function fencepost._may_be_late(c fencepost.cursor, s pg_snapshot) returns boolean
language sql immutable
as $$ select (c).h > 0 and ((c).s is not null or (c).b::text <> s::text) $$;

-- The partitions of a slot.
create or replace function fencepost._share(slot integer, slots integer, partitions integer) returns smallint[]
language sql immutable
as $$ select array(select pg_catalog.generate_series(slot, partitions - 1, slots)::smallint) $$;

-- The partition of a key: the first byte of the SHA-256 of its UTF-8 bytes, modulo the number of partitions.
-- STABLE, as convert_to is: only so it becomes part of the statement that calls it, and costs no call of its own.
create or replace function fencepost._partition(key text, partitions integer) returns smallint
language sql stable
as $$ select (pg_catalog.get_byte(pg_catalog.sha256(pg_catalog.convert_to(key, 'UTF8')), 0) % partitions)::smallint $$;
