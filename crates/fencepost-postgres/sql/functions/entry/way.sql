-- The ways from the functions that people call to those that do it. What people call runs with the rights of its caller: it takes the
-- function for any queue where the caller may execute that, and else the queue's own.
-- INVARIANT: whether a call is allowed is the server's own check of who may execute the function at the end of the way. What is asked on
-- the way decides which one is tried, never whether it may be called.

-- Whether the caller may execute a function, by its name; not if there is none.
create or replace function fencepost._may(named text) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$ select coalesce(has_function_privilege(to_regproc(named), 'execute'), false) $$;

-- Whether the caller may consume a queue. Views ask it of each row.
create or replace function fencepost._may_consume(queue_id integer) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return has_function_privilege('fencepost._any_dead_letters'::regproc, 'execute')
        or coalesce(has_function_privilege(to_regproc('fencepost.q' || queue_id || '_consume'), 'execute'), false);
end
$$;

-- The numbers of the queues that the caller may consume, each by the queue's own function.
create or replace function fencepost._consumable() returns setof integer
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select substr(split_part(p.proname, '_', 1), 2)::integer from pg_proc p
        where p.pronamespace = 'fencepost'::regnamespace and p.proname ~ '^q[0-9]+_consume$' and has_function_privilege(p.oid, 'execute')
        order by 1;
end
$$;

-- The call of a queue's own function with arguments by their names: text that is written here, never what a caller has given.
create or replace function fencepost._by_number(number integer, call text, arguments text default null) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select format('select * from fencepost.q%s_consume(%L%s) as x (%s)', number, c.call, ', ' || arguments, c.columns)
        from fencepost._consumer_calls() c where c.call = _by_number.call);
end
$$;

create or replace function fencepost._by_queue(queue text, call text, arguments text default null) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return fencepost._by_number(fencepost._queue_number(queue), call, arguments);
end
$$;

-- The calls that together tell of one queue, or without one of all that the caller may consume.
create or replace function fencepost._by_each(queue text, call text, arguments text default null) returns setof text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if queue is not null then
        return next fencepost._by_queue(queue, call, arguments);
    else
        return query select fencepost._by_number(n, call, arguments) from fencepost._consumable() n;
    end if;
end
$$;

-- The function that receives: the queue's own, or that of any queue for who may call that and was not granted this one. Part of the
-- statement that calls it, so it pins nothing: every name in it says where it is, and there is no operator.
create or replace function fencepost._receiver(number integer) returns text
language sql stable
as $$
    select case
        when pg_catalog.has_function_privilege('fencepost._any_receive'::pg_catalog.regproc, 'execute') and not coalesce(
            pg_catalog.has_function_privilege(pg_catalog.to_regproc(pg_catalog.concat('fencepost.q', number, '_receive')), 'execute'), false)
            then 'fencepost._any_receive'
        else pg_catalog.concat('fencepost.q', number, '_receive')
    end
$$;

-- The caller's function for leases whose names begin as this one does; NULL when there is none. A function's comment says for which.
create or replace function fencepost._prefix_function(name text) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select p.proname from pg_proc p
        where p.pronamespace = 'fencepost'::regnamespace and p.proname >= 'prefix_' and p.proname < 'prefix`'
            and has_function_privilege(p.oid, 'execute') and starts_with(_prefix_function.name, obj_description(p.oid, 'pg_proc'))
        limit 1);
end
$$;

-- Whether the caller may hold a lease, and see how it stands. Views ask it of each row.
create or replace function fencepost._may_hold(name text) returns boolean
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return has_function_privilege('fencepost._any_lease_states'::regproc, 'execute') or fencepost._prefix_function(name) is not null;
end
$$;

-- The call of a prefix's function, or the error of who has none for this name.
create or replace function fencepost._by_prefix(name text, call text, arguments text) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    own text := fencepost._prefix_function(fencepost._name('a lease name', name));
begin
    if own is null then
        raise exception using errcode = 'insufficient_privilege', message = format('permission denied for the lease `%s`', name),
            hint = 'fencepost.grant_lease grants leases by what their names begin with';
    end if;
    return (
        select format('select * from fencepost.%I(%L, %s) as x (%s)', own, c.call, arguments, c.columns)
        from fencepost._lease_calls() c where c.call = _by_prefix.call);
end
$$;
