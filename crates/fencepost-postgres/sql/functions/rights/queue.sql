-- Who may do what to one queue. A right is EXECUTE on the queue's own functions, and nothing else: the server's lists of who may execute
-- them are all there is to know.

-- The roles that the whole cluster has for this. Where they are there they have their rights on every queue.
create or replace function fencepost._roles() returns table (name text, rights text[])
language sql immutable
as $$
    values ('fencepost_producer', '{producer}'::text[]), ('fencepost_consumer', '{consumer}'), ('fencepost_admin', '{producer,consumer}')
$$;

-- The functions that make up a right on a queue. Who may execute the first one has it.
create or replace function fencepost._right(queue_id integer, named text) returns text[]
language plpgsql stable
as $$
declare
    log text := 'fencepost.q' || queue_id;
begin
    return case named
        when 'producer' then array[log || '_send', log || '_send_batch', log || '_send_many', log || '_send_once']
        when 'consumer' then array[log || '_receive', log || '_consume']
    end;
end
$$;

-- The roles that were granted EXECUTE on a function, its owner and PUBLIC apart.
create or replace function fencepost._grantees(function_id oid) returns text[]
language plpgsql stable
as $$
begin
    return array(
        select distinct r.rolname::text from pg_proc p cross join lateral aclexplode(p.proacl) a join pg_roles r on r.oid = a.grantee
        where p.oid = function_id and a.privilege_type = 'EXECUTE' and a.grantee <> p.proowner);
end
$$;

-- The roles that have a right on a queue, the cluster's own ones included.
create or replace function fencepost._holders(queue_id integer, named text) returns text[]
language plpgsql stable
as $$
begin
    return fencepost._grantees(to_regproc((fencepost._right(queue_id, named))[1]))
        || array(select r.name from fencepost._roles() r join pg_roles p on p.rolname = r.name where named = any(r.rights));
end
$$;

-- Grants a right on a queue.
create or replace function fencepost._give(queue_id integer, named text, roles text[]) returns void
language plpgsql
as $$
begin
    if roles <> '{}' then
        execute format('grant execute on function %s to %s',
            (select string_agg(f::regproc::oid::regprocedure::text, ', ') from unnest(fencepost._right(queue_id, named)) f),
            (select string_agg(format('%I', r), ', ') from unnest(roles) r));
    end if;
end
$$;

-- What every role with any right calls and sees. It does by itself only what the caller may do.
create or replace function fencepost._common() returns table (functions text[], tables text[])
language sql immutable
as $$
    values (
        '{send,send_batch,send_once,_send_many,_send_one_once,_send_granted,_check_columns,
        claim,claim_slot,receive,ack_receive,ack,ack_through,nack,snooze,dead_letter,slot_guard,renew_slots,renew_slot,release_slot,abandon_slot,
        maintain,_claim,_receive,_messages_of,_dispose,_heartbeat,_leave,_members,_next_due,_read,
        _slot_report,_consumer_report,_blocked_slots,_queue_status,_dead_counts,_dead_letters,_slot_history,
        lease_acquire,lease_renew,lease_release,lease_guard,_lease_states,_lease_history,_prefixes,_listed,
        _sleep,_marks,_by_topic,_topic_hash,notify,_notices,_schedules,_schedule,_schedule_history,
        _may,_may_consume,_may_hold,_consumable,_by_number,_by_queue,_by_each,_by_prefix,_prefix_function,_receiver,_consumer_calls,_lease_calls,
        _queue_number,_found_number,_received_from,_arrive,_clock,_uncommitted,_refuse,_name,_within,_time,payload_text,payload_json}'::text[],
        '{installed,installation,installation_history,queue_status,slot_status,lease_status,schedule_status,_schedule_state,_fired_state,dead_letters}'::text[])
$$;

-- The functions of these names, as the statements that grant them list them.
create or replace function fencepost._listing(names text[]) returns text
language plpgsql stable
as $$
begin
    return (select string_agg(p.oid::regprocedure::text, ', ') from pg_proc p
        where p.pronamespace = 'fencepost'::regnamespace and p.proname = any(names));
end
$$;

-- Lets a role use the schema.
create or replace function fencepost._admit(role text) returns void
language plpgsql
as $$
declare
    common record;
begin
    select * into common from fencepost._common();
    execute format('grant usage on schema fencepost to %I', role);
    execute format('grant execute on function %s to %I', fencepost._listing(common.functions), role);
    execute format('grant select on fencepost.%s to %I', array_to_string(common.tables, ', fencepost.'), role);
end
$$;

-- Keeps a role out that has no right left.
create or replace function fencepost._dismiss(role text) returns void
language plpgsql
as $$
declare
    common record;
begin
    select * into common from fencepost._common();
    if exists (
        select from pg_proc p cross join lateral aclexplode(p.proacl) a join pg_roles r on r.oid = a.grantee
        where p.pronamespace = 'fencepost'::regnamespace and r.rolname = role and p.proname <> all(common.functions)) then
        return;
    end if;
    execute format('revoke select on fencepost.%s from %I', array_to_string(common.tables, ', fencepost.'), role);
    execute format('revoke execute on function %s from %I', fencepost._listing(common.functions), role);
    execute format('revoke usage on schema fencepost from %I', role);
end
$$;

-- Refuses what is no role. Those who change rights take turns: the server does not let two change one list at the same moment.
create or replace function fencepost._grantee(role text) returns void
language plpgsql
as $$
begin
    perform fencepost._name('a role name', role);
    if not exists (select from pg_roles r where r.rolname = role) then
        perform fencepost._refuse('not_found', format('cannot find the role `%s`', role), jsonb_build_object('role', role),
            'rights are granted to roles one by one; CREATE ROLE makes one');
    end if;
    perform pg_advisory_xact_lock(fencepost._topic_hash('rights'));
end
$$;

-- The number of a queue whose rights are changed. Locks: the queue's row FOR KEY SHARE, so that it is not dropped meanwhile.
create or replace function fencepost._granted_queue(queue text, role text, named text) returns integer
language plpgsql
as $$
declare
    q fencepost.queue := fencepost._queue(queue);
begin
    if named is null or named not in ('producer', 'consumer') then
        perform fencepost._refuse('invalid_input', format('cannot use `%s` as a right', coalesce(left(named, 40), 'NULL')),
            jsonb_build_object('argument', 'right'), 'allowed are `producer` and `consumer`');
    end if;
    perform fencepost._grantee(role);
    perform from fencepost.queue x where x.id = q.id for key share;
    if not found then
        perform fencepost._queue(queue);
    end if;
    return q.id;
end
$$;

-- Grants a role a right on one queue: `producer` sends, `consumer` claims, receives, acks, reads and sees how it stands. True: granted;
-- false: it had it.
create or replace function fencepost.grant_queue(queue text, role text, "right" text) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    queue_id integer := fencepost._granted_queue(queue, role, "right");
    had boolean := role = any(fencepost._grantees(((fencepost._right(queue_id, "right"))[1])::regproc));
begin
    perform fencepost._give(queue_id, "right", array[role]);
    perform fencepost._admit(role);
    return not had;
end
$$;

-- Takes a right on one queue from a role. True: taken; false: it did not have it. What it has as a member of another role stays.
create or replace function fencepost.revoke_queue(queue text, role text, "right" text) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    queue_id integer := fencepost._granted_queue(queue, role, "right");
    had boolean := role = any(fencepost._grantees(((fencepost._right(queue_id, "right"))[1])::regproc));
begin
    if had then
        execute format('revoke execute on function %s from %I',
            (select string_agg(f::regproc::oid::regprocedure::text, ', ') from unnest(fencepost._right(queue_id, "right")) f), role);
        perform fencepost._dismiss(role);
    end if;
    return had;
end
$$;
