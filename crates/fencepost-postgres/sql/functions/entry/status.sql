-- How everything stands that the caller may consume or hold, for views and drivers.

create or replace function fencepost._slot_report(
    wanted text default null,
    out queue text, out consumer text, out slot integer, out state text, out holder text, out epoch bigint, out nonce text, out ttl interval,
    out expires_at timestamptz, out cursor_position bigint, out batch_id bigint, out through bigint, out size integer, out deliveries integer,
    out crashes integer, out plain boolean, out alone boolean, out last_acked bigint, out isolated bigint,
    out lag bigint, out retrying bigint, out parked bigint, out first_at timestamptz, out blocked_by integer
)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    granted text;
begin
    if has_function_privilege('fencepost._any_slot_report'::regproc, 'execute') then
        return query select * from fencepost._any_slot_report(wanted);
    else
        for granted in select * from fencepost._by_each(wanted, 'slot_report') loop
            return query execute granted;
        end loop;
    end if;
end
$$;

-- The slots that an open transaction has locked or changed, with the process that runs it.
create or replace function fencepost._blocked_slots(out queue text, out consumer text, out slot integer, out pid integer)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if has_function_privilege('fencepost._any_blocked_slots'::regproc, 'execute') then
        return query select * from fencepost._any_blocked_slots();
    else
        return query select s.queue, s.consumer, s.slot, s.blocked_by from fencepost._slot_report() s where s.blocked_by is not null;
    end if;
end
$$;

-- Without `counting` what its slots tell is left out, for who has asked them.
create or replace function fencepost._consumer_report(
    wanted text default null, counting boolean default true,
    out queue text, out consumer text, out slots integer, out on_failure text, out max_attempts integer,
    out max_crashes integer, out backoff interval, out lag bigint, out retrying bigint, out parked bigint, out dead bigint, out workers bigint,
    out first_at timestamptz
)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    granted text;
begin
    if has_function_privilege('fencepost._any_consumer_report'::regproc, 'execute') then
        return query select * from fencepost._any_consumer_report(wanted, counting);
    else
        for granted in select * from fencepost._by_each(wanted, 'consumer_report', 'slot => $1') loop
            return query execute granted using counting::integer;
        end loop;
    end if;
end
$$;

create or replace function fencepost._queue_status(
    out queue text, out partitions integer, out consumers bigint, out paused boolean, out retain_for interval, out retain_unread interval,
    out retain_unread_bytes bigint, out delayed bigint, out stored bigint, out oldest_at timestamptz
)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    granted text;
begin
    if has_function_privilege('fencepost._any_queue_status'::regproc, 'execute') then
        return query select * from fencepost._any_queue_status();
    else
        for granted in select * from fencepost._by_each(null, 'queue_status') loop
            return query execute granted;
        end loop;
    end if;
end
$$;

create or replace function fencepost._dead_counts(wanted text default null, out queue text, out consumer text, out dead bigint)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    granted text;
begin
    if has_function_privilege('fencepost._any_dead_counts'::regproc, 'execute') then
        return query select * from fencepost._any_dead_counts(wanted);
    else
        for granted in select * from fencepost._by_each(wanted, 'dead_counts') loop
            return query execute granted;
        end loop;
    end if;
end
$$;

create or replace function fencepost._dead_letters(queue text, consumer text, after bigint, most bigint) returns setof fencepost.dead
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if has_function_privilege('fencepost._any_dead_letters'::regproc, 'execute') then
        return query select * from fencepost._any_dead_letters(queue, consumer, after, most);
    else
        return query execute fencepost._by_queue(queue, 'dead_letters', 'consumer => $1, epoch => $2, batch_id => $3')
            using consumer, after, most;
    end if;
end
$$;

create or replace function fencepost._slot_history(queue text, consumer text) returns setof fencepost.slot_forced
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if has_function_privilege('fencepost._any_slot_history'::regproc, 'execute') then
        return query select * from fencepost._any_slot_history(queue, consumer);
    else
        return query execute fencepost._by_queue(queue, 'slot_history', 'consumer => $1') using consumer;
    end if;
end
$$;

create or replace function fencepost._members(queue text, consumer text, out worker text, out held integer, out expires_at timestamptz)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if has_function_privilege('fencepost._any_members'::regproc, 'execute') then
        return query select * from fencepost._any_members(queue, consumer);
    else
        return query execute fencepost._by_queue(queue, 'members', 'consumer => $1') using consumer;
    end if;
end
$$;

create or replace function fencepost._next_due(queue text, consumer text, slot integer) returns interval
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    due interval;
begin
    if has_function_privilege('fencepost._any_next_due'::regproc, 'execute') then
        return fencepost._any_next_due(queue, consumer, slot);
    end if;
    execute fencepost._by_queue(queue, 'next_due', 'consumer => $1, slot => $2') into due using consumer, slot;
    return due;
end
$$;

-- The messages of a queue from `start` on, at most `most`, see reader/read.sql.
create or replace function fencepost._read(queue text, start text, most integer)
returns table ("position" bigint, id bigint, key text, kind text, payload bytea, headers jsonb, created_at timestamptz, next fencepost.cursor)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if has_function_privilege('fencepost._any_read'::regproc, 'execute') then
        return query select * from fencepost._any_read(queue, start, most);
    else
        return query execute fencepost._by_queue(queue, 'read', 'word => $1, slot => $2') using start, most;
    end if;
end
$$;
