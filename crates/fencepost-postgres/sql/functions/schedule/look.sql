-- How schedules stand, and which are due.

-- One schedule, or all by name, of those that the caller may see.
create or replace function fencepost._schedules(of text default null) returns setof fencepost.schedule
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select * from fencepost._schedule_state s where of is null or s.name = of order by s.name $$;

-- Renews the leader's lease. Unless it is lost: the schedules that are due, by when they are, at most `most` and with `bytes` of payloads
-- unless it is one; then a row without one, which says when the first is due that is not among them. `moment` is when was looked: where the
-- server's clock is a little behind `seen`, an earlier look's, it is `instead`.
-- Locks: as renewing a lease.
create or replace function fencepost._schedules_lead(
    leader text, epoch bigint, ttl interval, most integer, bytes bigint, seen timestamptz, instead timestamptz,
    out moment timestamptz, out later timestamptz, out due fencepost.schedule
)
returns setof record
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
set lock_timeout = '5s'
as $$
declare
    one fencepost.schedule;
    many integer := 0;
begin
    if not fencepost._any_lease_renew(leader, epoch, ttl) then
        return;
    end if;
    moment := fencepost._clock();
    if moment < seen and seen < moment + interval '2 hours' then
        moment := instead;
    end if;
    for one in select * from fencepost.schedule s where s.due_at is not null order by s.due_at, s.name limit most + 1 loop
        bytes := bytes - octet_length(one.payload);
        if many = most or (many > 0 and bytes < 0) or one.due_at > moment then
            later := one.due_at;
            exit;
        end if;
        many := many + 1;
        due := one;
        return next;
    end loop;
    due := null;
    return next;
end
$$;

-- What a schedule has fired, the last 100, oldest first; the error `not_found` for one that the caller may not see.
create or replace function fencepost._schedule_history(schedule text) returns setof fencepost.fired
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    present fencepost.schedule := fencepost._schedule(schedule);
begin
    return query select h.schedule_id, h.nominal_at, h.fired_at, h.message from (
        select * from fencepost._fired_state f where f.schedule_id = present.id order by f.nominal_at desc limit 100) h order by h.nominal_at;
end
$$;
