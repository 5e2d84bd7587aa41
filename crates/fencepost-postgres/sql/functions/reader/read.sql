-- The messages of a queue from `start` on, at most `most`, whoever has handled them. Expired ones are left out.
-- A last row without an id has the cursor to go on with.
create or replace function fencepost._any_read(queue text, start text, most integer)
returns table ("position" bigint, id bigint, key text, kind text, payload bytea, headers jsonb, created_at timestamptz, next fencepost.cursor)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    q fencepost.queue := fencepost._queue(queue);
    parts smallint[] := fencepost._share(0, 1, q.partitions);
    moment timestamptz := fencepost._clock();
    begun record;
    at fencepost.cursor;
    least_id bigint;
    s pg_snapshot;
    rows fencepost.logged[];
    given integer := 0;
    asked integer;
    told integer;
    before bigint;
    removed bigint;
begin
    perform fencepost._within('max', most, 1, 10000);
    -- ORDER: before the first look, so that what it is told of here comes after all that was lost elsewhere.
    perform fencepost._arrive();
    before := fencepost._removed(q.id);
    begun := fencepost._start(q, start);
    at := begun.at;
    least_id := begun.after_id;
    loop
        s := coalesce((at).s, fencepost._snapshot());
        asked := most - given;
        execute 'select fencepost.q' || q.id || '_look($1, $2, $3, $4, $5)' into rows
            using parts, at, 9223372036854775807, s, asked;
        -- RACE: what was removed before the look is not in it; an empty segment is empty at every snapshot.
        removed := fencepost._removed(q.id);
        if removed > before and removed > (at).h then
            exit when given > 0;
            if start <> 'earliest' then
                perform fencepost._gone(q, (at).h);
            end if;
            before := removed;
            at := (fencepost._start(q, start)).at;
            continue;
        end if;
        exit when rows = '{}' and (at).s is null;
        if rows = '{}' then
            at := row((at).h, s, null, null);
            continue;
        end if;
        return query select r.position, r.id, r.key, r.kind, r.payload, r.headers, r.created_at, null::fencepost.cursor
            from unnest(rows) r
            where r.id > coalesce(least_id, 0) and (r.expires_at is null or r.expires_at > moment);
        get diagnostics told = row_count;
        given := given + told;
        at := fencepost._next(at, rows, s, asked);
        exit when given >= most;
    end loop;
    return query select null::bigint, null::bigint, null::text, null::text, null::bytea, null::jsonb, null::timestamptz, at;
end
$$;
