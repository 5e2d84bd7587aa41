-- What holders of leases call, by those who may hold any lease or were granted those of a prefix.
-- What is called most pins no search path: every name in it says where it is, and there is no operator.

-- Acquires a lease that is free or expired, or finds the live grant of the same nonce again. One row: granted, held or contended.
create or replace function fencepost.lease_acquire(name text, holder text, ttl interval, nonce text default null)
returns fencepost.lease_acquired
language plpgsql
as $$
declare
    answer fencepost.lease_acquired;
begin
    if pg_catalog.has_function_privilege('fencepost._any_lease_acquire'::pg_catalog.regproc, 'execute') then
        return fencepost._any_lease_acquire(name, holder, ttl, nonce);
    end if;
    execute fencepost._by_prefix(name, 'acquire', '$1, holder => $2, span => $3, nonce => $4') into answer using name, holder, ttl, nonce;
    return answer;
end
$$;

-- Extends a grant by `ttl`, or by the TTL that it had; also after its expiry as long as nobody took over. False: lost.
create or replace function fencepost.lease_renew(name text, epoch bigint, ttl interval default null) returns boolean
language plpgsql
as $$
declare
    held boolean;
begin
    if pg_catalog.has_function_privilege('fencepost._any_lease_renew'::pg_catalog.regproc, 'execute') then
        return fencepost._any_lease_renew(name, epoch, ttl);
    end if;
    execute fencepost._by_prefix(name, 'renew', '$1, epoch => $2, span => $3') into held using name, epoch, ttl;
    return held;
end
$$;

-- Gives a grant back; the lease is free once this commits. False: not held by this epoch, and nothing changes.
create or replace function fencepost.lease_release(name text, epoch bigint) returns boolean
language plpgsql
as $$
declare
    given boolean;
begin
    if pg_catalog.has_function_privilege('fencepost._any_lease_release'::pg_catalog.regproc, 'execute') then
        return fencepost._any_lease_release(name, epoch);
    end if;
    execute fencepost._by_prefix(name, 'release', '$1, epoch => $2') into given using name, epoch;
    return given;
end
$$;

-- Makes the caller's transaction valid only under a grant: raises `fenced` unless the epoch is the holder's.
create or replace function fencepost.lease_guard(name text, epoch bigint) returns void
language plpgsql
as $$
begin
    if pg_catalog.has_function_privilege('fencepost._any_lease_guard'::pg_catalog.regproc, 'execute') then
        perform fencepost._any_lease_guard(name, epoch);
    else
        execute fencepost._by_prefix(name, 'guard', '$1, epoch => $2') using name, epoch;
    end if;
end
$$;

-- One lease, or all by name that the caller may hold, with what clients need beside the view.
create or replace function fencepost._lease_states(of text default null)
returns table (name text, epoch bigint, holder text, nonce text, ttl_micros bigint, since timestamptz, expires_at timestamptz)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    own record;
begin
    if has_function_privilege('fencepost._any_lease_states'::regproc, 'execute') then
        return query select * from fencepost._any_lease_states(of);
    elsif of is not null then
        return query execute fencepost._by_prefix(of, 'state', '$1') using of;
    else
        return query select s.* from (
            select distinct on (l.name) l.* from fencepost._prefixes() p cross join lateral fencepost._listed(p.prefix) l) s order by s.name;
    end if;
end
$$;

-- The prefixes whose leases the caller was granted.
create or replace function fencepost._prefixes() returns table (prefix text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select obj_description(p.oid, 'pg_proc') from pg_proc p
        where p.pronamespace = 'fencepost'::regnamespace and p.proname >= 'prefix_' and p.proname < 'prefix`'
            and has_function_privilege(p.oid, 'execute');
end
$$;

-- The leases of one prefix.
create or replace function fencepost._listed(prefix text)
returns table (name text, epoch bigint, holder text, nonce text, ttl_micros bigint, since timestamptz, expires_at timestamptz)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute fencepost._by_prefix(prefix, 'list', '$1') using prefix;
end
$$;

create or replace function fencepost._lease_history(of text)
returns table (at timestamptz, epoch bigint, from_holder text, reason text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if has_function_privilege('fencepost._any_lease_history'::regproc, 'execute') then
        return query select * from fencepost._any_lease_history(of);
    else
        return query execute fencepost._by_prefix(of, 'history', '$1') using of;
    end if;
end
$$;
