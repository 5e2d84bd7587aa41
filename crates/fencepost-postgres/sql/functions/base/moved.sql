-- What happens once when the store finds itself elsewhere: after a failover, a restore or a copy.

-- By how much the numbers of transactions are above the server's own, in logs and cursors. Replaced where a copy needs it; STABLE, so that
-- plans which hold it notice.
create or replace function fencepost._xid_shift() returns bigint
language sql stable
as $$ select 0::bigint $$;

-- The transaction of a row that is being written. Part of the statement that writes it: without a shift, it is the server's own call.
create or replace function fencepost._xid() returns xid8
language sql stable
as $$
    select case when fencepost._xid_shift() = 0 then pg_catalog.pg_current_xact_id()
        else (pg_catalog.pg_current_xact_id()::text::bigint + fencepost._xid_shift())::text::xid8 end
$$;

-- Has the transactions of this server count as that much higher from now on.
create or replace function fencepost._shift_xids(shift bigint) returns void
language plpgsql
as $$
begin
    execute format('create or replace function fencepost._xid_shift() returns bigint language sql stable as %L', format('select %s::bigint', shift));
end
$$;

-- Begins a generation, unless somebody else did meanwhile, and returns its id.
-- The counters jump over what a lost timeline, or the store that this one is a copy of, may have given and this one does not know: no
-- epoch comes twice, a position that somebody has been told is not that of another message, and the number of a queue, which clients
-- remember, not that of another queue.
create or replace function fencepost._begin_generation(current_name text) returns integer
language plpgsql
as $$
declare
    begun integer;
    copied boolean;
    q record;
begin
    update fencepost.generation g set name = g.name || ', copied as ' || g.id
        where g.name = current_name and (g.xmin is distinct from g.written or g.database is distinct from fencepost._database());
    insert into fencepost.generation (name, database, seen_at) values (current_name, fencepost._database(), fencepost._clock())
        on conflict (name) do nothing returning id into begun;
    -- By one of those who come first: who sets a counter later than the others would set it back under what they were given.
    if begun is not null then
        update fencepost.generation set written = xmin where id = begun;
        copied := exists (select from fencepost.home h where h.xmin <> h.written);
        if copied then
            perform fencepost._settle_in();
        end if;
        if copied or (select count(*) from fencepost.generation) > 1 then
            -- INVARIANT: epochs run ahead of the clock by less than 3 s, so a minute is beyond whatever was granted and lost.
            perform setval('fencepost.epoch', greatest(e.last_value, fencepost._clock_micros() + 60000000)) from fencepost.epoch e;
            perform setval('fencepost.queue_id_seq', s.last_value + 1000) from fencepost.queue_id_seq s;
            for q in select x.id from fencepost.queue x order by x.id loop
                execute format('select setval(%L, last_value + 1000000000) from %1$s', 'fencepost.q' || q.id || '_position');
            end loop;
        end if;
    end if;
    return (select id from fencepost.generation where name = current_name);
end
$$;

-- Makes a copy by rows this server's own. Its logs and cursors speak of transactions of another server, by numbers that are finished there.
-- INVARIANT: whatever they name comes before every transaction that is still to write here. Where the numbers of this server are not above
-- them already, they are counted as higher from now on, so that nothing that was copied has to be changed, or judged anew.
-- Locks: where that is needed every log ACCESS EXCLUSIVE, for 5 s each: who has written by the server's own number ends before.
create or replace function fencepost._settle_in() returns void
language plpgsql
as $$
declare
    shift bigint := (select h.xid_shift from fencepost.home h for update);
    torn record;
    highest bigint;
    bound text := current_setting('lock_timeout');
    q record;
    named text;
begin
    perform fencepost._read_committed('take over a copy of the store');
    select c.name, s.slot into torn from fencepost.slot s join fencepost.consumer c on c.id = s.consumer_id
        where (fencepost._state(s.consumer_id, s.slot)).version is null limit 1;
    if found then
        perform fencepost._refuse('corrupt', format('cannot use this copy of the store: it has no state for slot %s of the consumer `%s`', torn.slot, torn.name),
            '{}', 'the dump was begun right when the table of states was emptied; restore another one');
    end if;
    highest := fencepost._highest_xid();
    -- ORDER: this snapshot is taken after the look, so that none of this server's own rows reaches it.
    if highest >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint + shift then
        perform set_config('lock_timeout', '5s', true);
        for q in select x.id from fencepost.queue x order by x.id loop
            for n in 0..2 loop
                execute format('alter table fencepost.q%s_%s alter column xid set default fencepost._xid()', q.id, n);
            end loop;
        end loop;
        perform set_config('lock_timeout', bound, true);
        -- Above all there is, and above what somebody may have been told after the copy was made.
        shift := ((fencepost._highest_xid() >> 32) + 2) << 32;
        perform fencepost._shift_xids(shift);
    end if;
    -- A right that could not be restored, as its role is not here, takes with it that PUBLIC has none.
    for named in
        select p.oid::regprocedure::text from pg_proc p
        where p.pronamespace = 'fencepost'::regnamespace and (p.proacl is null or exists (select from aclexplode(p.proacl) a where a.grantee = 0))
    loop
        execute 'revoke execute on function ' || named || ' from public';
    end loop;
    -- Nobody here has listened yet, and what they name is not this server's.
    delete from fencepost.notice;
    perform setval('fencepost.notice_removed', 0);
    update fencepost.home set xid_shift = shift;
    update fencepost.home set written = xmin;
end
$$;

-- The highest transaction that logs and cursors name.
create or replace function fencepost._highest_xid() returns bigint
language plpgsql volatile
as $$
declare
    highest bigint := 0;
    own bigint;
    q record;
begin
    for q in select x.id, x.partitions, n from fencepost.queue x cross join generate_series(0, 2) n loop
        execute format('
            select max(l.xid::text::bigint) from unnest($1) p
            cross join lateral (select xid from fencepost.q%s_%s where partition = p order by xid desc limit 1) l', q.id, q.n)
            into own using fencepost._share(0, 1, q.partitions);
        highest := greatest(highest, own);
    end loop;
    return greatest(highest, (
        select max(pg_snapshot_xmax(x.seen)::text::bigint)
        from (select * from fencepost.state_0 union all select * from fencepost.state_1) s
        cross join lateral unnest(array[(s.cursor).b, (s.cursor).s, (s.next).b, (s.next).s, (s.isolated).b, (s.isolated).s]) x (seen)));
end
$$;

-- For who opens a store or reads it without owning anything: notices that it is elsewhere by now. A store in which nothing was ever granted
-- and that is no copy has nothing to notice; a transaction that may not write leaves it to others.
create or replace function fencepost._arrive() returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    latest record;
begin
    if current_setting('transaction_read_only') = 'on' then
        return;
    end if;
    select g.name, g.xmin = g.written and g.database = fencepost._database() as own into latest from fencepost.generation g order by g.id desc limit 1;
    if latest.name is null and not exists (select from fencepost.home h where h.xmin <> h.written)
        or latest.own and latest.name like '%/' || fencepost._timeline() then
        return;
    end if;
    perform fencepost._generation();
end
$$;

-- For an operator: declares the store to be another one than the server's own files tell, as after a copy of them that goes on under the same
-- timeline. What was granted is void, and the counters jump.
create or replace function fencepost.rebase() returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    latest integer := (select max(g.id) from fencepost.generation g);
begin
    perform fencepost._read_committed('rebase');
    if fencepost._generation() = latest then
        update fencepost.generation g set name = g.name || ', ended as ' || g.id where g.id = latest;
        perform fencepost._generation();
    end if;
end
$$;
