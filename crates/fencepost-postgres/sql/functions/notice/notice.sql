-- Notices: appended by who notifies, looked at by who listens, removed after 10 minutes or 100,000 more.

-- Notifies on a channel, once the transaction commits. One row is written; who listens is told if somebody does. One call of 256 removes
-- old notices, so that they go also where nobody maintains the store.
-- Locks: none that anybody waits for.
create or replace function fencepost._any_send_notice(channel text, payload text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    own_id bigint;
begin
    perform fencepost._name('a channel name', channel);
    if payload is null then
        perform fencepost._refuse('invalid_input', 'cannot notify with a payload that is NULL', jsonb_build_object('argument', 'payload'),
            'an empty payload is allowed');
    end if;
    if octet_length(payload) > 8000 then
        perform fencepost._refuse('limit_exceeded', format('cannot notify with a payload of `%s` bytes', octet_length(payload)),
            jsonb_build_object('limit', 8000),
            'the payload of a notice may have 8000 bytes; send a message, or notify of where the data is');
    end if;
    insert into fencepost.notice (channel, payload, at) values (channel, payload, fencepost._clock()) returning id into own_id;
    perform fencepost._wake('channel/' || channel);
    -- Above READ COMMITTED a row that somebody else removed since would fail the caller's transaction.
    if own_id % 256 = 0 and current_setting('transaction_isolation') = 'read committed' then
        perform fencepost._forget_notices(512);
    end if;
end
$$;

-- Removes the oldest notices, at most so many, of those that are too old or too many. Returns how many it removed.
-- INVARIANT: what counts as removed only rises, so one at a time does it; others leave it to the one.
-- ORDER: it has risen before the rows are gone for anybody, so who does not see them sees that.
create or replace function fencepost._forget_notices(most integer) returns integer
language plpgsql
as $$
declare
    moment timestamptz := fencepost._clock();
    newest bigint := (select s.last_value from fencepost.notice_id_seq s);
    removed integer;
    last bigint;
begin
    if not pg_try_advisory_xact_lock(fencepost._topic_hash('notices')) then
        return 0;
    end if;
    with old as (
        delete from fencepost.notice n
        where n.id = any(array(
            select f.id from (select x.id, x.at from fencepost.notice x order by x.id limit most) f
            where f.at <= moment - interval '10 minutes' or f.id <= newest - 100000))
        returning n.xid::text::bigint as xid)
    select count(*), max(o.xid) into removed, last from old o;
    if removed > 0 then
        perform setval('fencepost.notice_removed', greatest(r.last_value, last)) from fencepost.notice_removed r;
    end if;
    return removed;
end
$$;

-- What listeners of these channels have not been given yet: what was committed since the snapshot `since`, which was taken at `known`, in
-- pages. The first row says where the store is, which snapshot has been looked up to, whether notices are gone that were to be given, and
-- where the next page begins, if there is one: ask again with `upto` as it says. The others are the notices, as each sender sent them.
-- With another place, or without `since`, it only says where to begin.
-- INVARIANT: a row is not in a snapshot if its transaction was under way then, or came later; both are found by the index, so what old
-- snapshots keep and what was seen before costs nothing. A page is of one snapshot with the others of its pass.
-- Locks: none.
create or replace function fencepost._any_notices(
    channels text[], known text, since text, upto text, after_xid text, after_id bigint
)
returns table (place text, seen text, is_lost boolean, last_xid text, last_id bigint, channel text, payload text, at timestamptz)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    here text := concat_ws('/', (pg_control_system()).system_identifier, fencepost._timeline(), fencepost._database(),
        coalesce((select max(g.id) from fencepost.generation g), 1));
    late xid8[];
    fresh xid8;
    from_xid xid8 := coalesce(after_xid, '0')::xid8;
    from_id bigint := coalesce(after_id, 0);
    fresh_xid xid8;
    fresh_id bigint;
begin
    if since is null or known is distinct from here then
        return query select here, pg_current_snapshot()::text, since is not null, null::text, null::bigint, null::text, null::text, null::timestamptz;
        return;
    end if;
    late := array(select x from pg_snapshot_xip(since::pg_snapshot) x);
    fresh := pg_snapshot_xmax(since::pg_snapshot);
    fresh_xid := case when from_xid < fresh then fresh else from_xid end;
    fresh_id := case when from_xid < fresh then 0 else from_id end;
    return query
        with bound as materialized (
            select coalesce(_any_notices.upto::pg_snapshot, pg_current_snapshot()) as upto
        ), page as materialized (
            select p.* from (
                select l.* from unnest(late) x cross join lateral (
                    select n.* from fencepost.notice n where n.xid = x and (n.xid, n.id) > (from_xid, from_id)
                    order by n.xid, n.id limit 1000) l
                where pg_visible_in_snapshot(x, (select b.upto from bound b))
                union all
                (select n.* from fencepost.notice n
                    where (n.xid, n.id) > (fresh_xid, fresh_id) and pg_visible_in_snapshot(n.xid, (select b.upto from bound b))
                    order by n.xid, n.id limit 1000)) p
            order by p.xid, p.id limit 1000
        )
        select a.place, a.seen, a.is_lost, a.last_xid, a.last_id, a.channel, a.payload, a.at
        from (
            select here as place, b.upto::text as seen,
                r.last_value >= fresh::text::bigint or exists (
                    select from unnest(late) x where x::text::bigint <= r.last_value and pg_visible_in_snapshot(x, b.upto)) as is_lost,
                l.xid::text as last_xid, l.id as last_id,
                null::text as channel, null::text as payload, null::timestamptz as at, null::xid8 as xid, null::bigint as id
            from bound b cross join fencepost.notice_removed r
            left join (select p.xid, p.id from page p order by p.xid, p.id offset 999) l on true
            union all
            select null, null, null, null, null, p.channel, p.payload, p.at, p.xid, p.id
            from page p where exists (select from unnest(channels) c where c = p.channel)) a
        order by a.xid nulls first, a.id;
end
$$;
