-- What a receive on any queue reads: the late rows of the slot's partitions, then the fresh ones, finished in `s`.
create or replace function fencepost._look(target fencepost.target, slot integer, c fencepost.cursor, upto bigint, s pg_snapshot, most bigint)
returns fencepost.logged[]
language plpgsql volatile
as $$
declare
    rows fencepost.logged[];
begin
    execute 'select fencepost.q' || (target).queue_id || '_look($1, $2, $3, $4, $5)' into rows
        using array(select generate_series(slot, (target).partitions - 1, (target).slots)::smallint), c, upto, s, most;
    return rows;
end
$$;

-- The cursor after `rows`, which a look from `c` under `s` with the limit `most` returned.
create or replace function fencepost._next(c fencepost.cursor, rows fencepost.logged[], s pg_snapshot, most bigint) returns fencepost.cursor
language plpgsql immutable
as $$
declare
    last bigint := (rows[cardinality(rows)]).position;
begin
    if cardinality(rows) = most and last <= (c).h then
        -- The limit was reached among the late ones: the pass over them goes on, under the same snapshot.
        return row((c).h, (c).b, s, last)::fencepost.cursor;
    end if;
    return row(greatest((c).h, last), s, null, null)::fencepost.cursor;
end
$$;

-- The first position of a queue that was sent at this instant or later, if there is one.
create or replace function fencepost._first_since(q fencepost.queue, since timestamptz) returns bigint
language plpgsql volatile
as $$
declare
    first bigint;
begin
    execute replace('
        select min(position) from (
            select position from {q}_0 where created_at >= $1 and position > $2
            union all select position from {q}_1 where created_at >= $1 and position > $2
            union all select position from {q}_2 where created_at >= $1 and position > $2) l',
        '{q}', 'fencepost.q' || (q).id) into first using since, fencepost._removed((q).id);
    return first;
end
$$;

-- The first position there is in a queue, if any.
create or replace function fencepost._first(q fencepost.queue) returns bigint
language sql volatile
as $$ select fencepost._first_since(q, '-infinity') $$;

-- How many messages a queue stores.
create or replace function fencepost._stored(queue_id integer) returns bigint
language plpgsql volatile
as $$
declare
    many bigint;
begin
    execute replace('
        select (select count(*) from {q}_0 where position > $1) + (select count(*) from {q}_1 where position > $1)
            + (select count(*) from {q}_2 where position > $1)', '{q}', 'fencepost.q' || queue_id)
        into many using fencepost._removed(queue_id);
    return many;
end
$$;
