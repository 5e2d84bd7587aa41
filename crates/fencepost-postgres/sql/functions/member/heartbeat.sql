-- A sign of life: joins a consumer's workers or renews the membership, and renews the slots presented, in one transaction.
-- `workers` and `fewest` are of the live members, this one included; `held` is in the order of the slots presented.
-- Locks: the slots' rows FOR NO KEY UPDATE, then the member's row.
create or replace function fencepost._any_heartbeat(
    queue text, consumer text, member text, worker text, ttl interval, slots integer[], epochs bigint[],
    out workers integer, out fewest integer, out slot_count integer, out held boolean[], out is_new boolean
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    target fencepost.target;
    moment timestamptz;
    own integer;
begin
    perform fencepost._name('a nonce', member);
    perform fencepost._name('a worker name', worker);
    ttl := fencepost._ttl(ttl);
    target := fencepost._consumer(queue, consumer);
    -- Renewed in the order of the slots, answered in that of the call.
    held := array(
        select coalesce(bool_or(r.held), false)
        from unnest(slots) with ordinality u (slot, n)
        left join fencepost._any_renew_slots(queue, consumer, slots, epochs) r on r.slot = u.slot
        group by u.n order by u.n);
    own := cardinality(array_remove(held, false));
    moment := fencepost._clock();
    delete from fencepost.member m where m.consumer_id = target.id and m.expires_at <= moment;
    insert into fencepost.member as m (consumer_id, member, worker, held, expires_at)
        values (target.id, _any_heartbeat.member, _any_heartbeat.worker, own, moment + ttl)
        on conflict on constraint member_pkey do update set worker = excluded.worker, held = excluded.held, expires_at = excluded.expires_at
        returning m.xmax = 0 into is_new;
    if is_new then
        perform fencepost._wake(fencepost._slots_topic(queue, consumer));
    end if;
    select count(*), min(m.held), target.slots into workers, fewest, slot_count
        from fencepost.member m where m.consumer_id = target.id and m.expires_at > moment;
end
$$;

-- Ends a membership. True when it was there.
create or replace function fencepost._any_leave(queue text, consumer text, member text) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    gone integer;
begin
    delete from fencepost.member m using fencepost.consumer c, fencepost.queue q
        where q.name = queue and c.queue_id = q.id and c.name = consumer and m.consumer_id = c.id and m.member = _any_leave.member;
    get diagnostics gone = row_count;
    if gone > 0 then
        perform fencepost._wake(fencepost._slots_topic(queue, consumer));
    end if;
    return gone > 0;
end
$$;

-- The live members of a consumer, by label.
create or replace function fencepost._any_members(queue text, consumer text, out worker text, out held integer, out expires_at timestamptz)
returns setof record
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    target fencepost.target := fencepost._consumer(queue, consumer);
begin
    return query select m.worker, m.held, m.expires_at from fencepost.member m
        where m.consumer_id = target.id and m.expires_at > fencepost._clock() order by m.worker collate "C";
end
$$;
