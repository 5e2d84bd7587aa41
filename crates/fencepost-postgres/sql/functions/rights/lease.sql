-- Who may hold leases whose names begin with a prefix. The right is EXECUTE on a function that exists for the prefix.

-- What the function of a prefix is called: by the first bytes of a SHA-256, so that no name is too long for it.
create or replace function fencepost._prefix_named(prefix text) returns text
language sql stable
as $$
    select 'prefix_' || pg_catalog.encode(pg_catalog.substr(pg_catalog.sha256(pg_catalog.convert_to(prefix, 'UTF8')), 1, 16), 'hex')
$$;

-- The function of a prefix: {f}(call, name, ...), with the calls and columns of fencepost._lease_calls, for names that begin with it. The
-- prefix stands in it as hexadecimal digits, so whatever it holds is no part of the text.
create or replace function fencepost._prefix_body(prefix text) returns text
language sql stable
as $make$
select replace(replace($text$
create or replace function fencepost.{f}(
    call text, name text, holder text default null, epoch bigint default null, span interval default null, nonce text default null
) returns setof record
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $body$
declare
    statement text := fencepost._statement_of((select c.statement from fencepost._lease_calls() c where c.call = {f}.call), call);
begin
    if starts_with(name, convert_from(decode('{prefix}', 'hex'), 'UTF8')) is not true then
        raise exception using errcode = 'insufficient_privilege', message = 'permission denied for a lease of another prefix';
    end if;
    return query execute statement using name, holder, epoch, span, nonce;
end
$body$
$text$, '{f}', fencepost._prefix_named(prefix)), '{prefix}', pg_catalog.encode(pg_catalog.convert_to(prefix, 'UTF8'), 'hex'))
$make$;

-- Makes the function of a prefix, or makes it anew; who was granted it keeps it.
create or replace function fencepost._make_prefix(prefix text) returns void
language plpgsql
set check_function_bodies = off
as $$
declare
    named text := fencepost._prefix_named(prefix);
begin
    execute fencepost._prefix_body(prefix);
    execute format('comment on function fencepost.%I is %L', named, prefix);
    execute format('revoke execute on function fencepost.%I from public', named);
    if exists (select from pg_roles r where r.rolname = 'fencepost_admin') then
        execute format('grant execute on function fencepost.%I to fencepost_admin', named);
    end if;
end
$$;

-- Lets a role hold the leases whose names begin with `prefix`. True: granted; false: it could.
create or replace function fencepost.grant_lease(prefix text, role text) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    named text := 'fencepost.' || fencepost._prefix_named(fencepost._name('a prefix', prefix));
begin
    perform fencepost._grantee(role);
    -- A copy may have come without comments, by which a function is found.
    if obj_description(to_regproc(named), 'pg_proc') is null then
        perform fencepost._make_prefix(prefix);
    end if;
    if role = any(fencepost._grantees(to_regproc(named))) then
        return false;
    end if;
    execute format('grant execute on function %s to %I', named, role);
    perform fencepost._admit(role);
    return true;
end
$$;

-- Takes the right on the leases of a prefix from a role. True: taken; false: it did not have it. A prefix that nobody was granted any
-- more is forgotten.
create or replace function fencepost.revoke_lease(prefix text, role text) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    named text := 'fencepost.' || fencepost._prefix_named(fencepost._name('a prefix', prefix));
begin
    perform fencepost._grantee(role);
    if not coalesce(role = any(fencepost._grantees(to_regproc(named))), false) then
        return false;
    end if;
    execute format('revoke execute on function %s from %I', named, role);
    if array_remove(fencepost._grantees(to_regproc(named)), 'fencepost_admin') = '{}' then
        execute 'drop function ' || named;
    end if;
    perform fencepost._dismiss(role);
    return true;
end
$$;
