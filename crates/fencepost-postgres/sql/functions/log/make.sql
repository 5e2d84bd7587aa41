-- Makes the log of a queue: three tables that take turns, sequences for the position, the turn and what counts as removed and for who
-- sleeps, and its functions.
-- {q} stands for the log's name, `q` and the queue's id; nothing else is put into the text.
-- Locks: none but on what it creates.
create or replace function fencepost._make_log(queue_id integer, partitions integer, topic text) returns void
language plpgsql
as $$
declare
    log text := 'fencepost.q' || queue_id;
    xid text := case when fencepost._xid_shift() = 0 then 'pg_catalog.pg_current_xact_id()' else 'fencepost._xid()' end;
begin
    execute replace(replace('
        create sequence {q}_position minvalue 0 start 0;
        create sequence {q}_turn minvalue 0 start 0;
        create sequence {q}_removed minvalue 0 start 0;
        create sequence fencepost.asleep_q{id} minvalue 0 start 0', '{q}', log), '{id}', queue_id::text);
    -- They start as used, so that last_value is the last one given.
    perform nextval(log || '_position'), nextval(log || '_turn'), nextval(log || '_removed');
    for segment in 0..2 loop
        execute replace(replace(replace(replace('
            create table {q}_{n} (
                position   bigint      not null,
                id         bigint      not null,
                xid        xid8        not null default {xid},
                partition  smallint    not null,
                key        text,
                kind       text        not null,
                payload    bytea       not null,
                headers    jsonb,
                created_at timestamptz not null,
                expires_at timestamptz
            );
            create unique index {i}_{n}_by_position on {q}_{n} (partition, position);
            create index {i}_{n}_by_xid on {q}_{n} (partition, xid);
            revoke all on {q}_{n} from public', '{q}', log), '{n}', segment::text), '{i}', 'q' || queue_id::text), '{xid}', xid);
    end loop;
    perform fencepost._make_functions(queue_id, partitions, topic);
end
$$;

-- Makes the functions of a log, with static statements over it, in place of those that an older version made. Who was granted those may
-- call these: the first function of a right says who has it.
create or replace function fencepost._make_functions(queue_id integer, partitions integer, topic text) returns void
language plpgsql
set check_function_bodies = off
as $$
declare
    log text := 'fencepost.q' || queue_id;
    producers text[] := fencepost._holders(queue_id, 'producer');
    consumers text[] := fencepost._holders(queue_id, 'consumer');
begin
    perform fencepost._drop_functions(queue_id);
    execute fencepost._write_function(log, partitions, topic);
    execute fencepost._send_function(log, queue_id, partitions, topic);
    execute fencepost._send_many_functions(log, queue_id, partitions, topic);
    execute fencepost._late_function(log);
    execute fencepost._segment_function(log);
    execute fencepost._fresh_function(log);
    execute fencepost._look_function(log);
    execute fencepost._peek_function(log);
    execute fencepost._receive_function(log, queue_id);
    execute fencepost._send_once_function(log, queue_id);
    execute fencepost._consume_function(log, queue_id);
    -- What is made after the installation has to be closed to PUBLIC here.
    execute 'revoke execute on function ' || array_to_string(fencepost._functions(queue_id), ', ') || ' from public';
    perform fencepost._give(queue_id, 'producer', producers), fencepost._give(queue_id, 'consumer', consumers);
end
$$;

-- The functions of a log.
create or replace function fencepost._functions(queue_id integer) returns text[]
language sql stable
as $$
    select array(
        select p.oid::regprocedure::text from pg_proc p
        where p.pronamespace = 'fencepost'::regnamespace and p.proname ~ ('^q' || queue_id || '_'))
$$;

create or replace function fencepost._drop_functions(queue_id integer) returns void
language plpgsql
as $$
declare
    named text;
begin
    foreach named in array fencepost._functions(queue_id) loop
        execute 'drop function ' || named;
    end loop;
end
$$;

-- Drops the log of a queue.
create or replace function fencepost._drop_log(queue_id integer) returns void
language plpgsql
as $$
declare
    granted text[] := array(
        select distinct g.role from unnest(array['producer', 'consumer']) named
        cross join lateral unnest(fencepost._grantees(to_regproc((fencepost._right(queue_id, named))[1]))) g (role)
        where g.role not in (select r.name from fencepost._roles() r));
begin
    perform fencepost._drop_functions(queue_id);
    perform fencepost._dismiss(r) from unnest(granted) r;
    execute replace(replace('
        drop table {q}_0, {q}_1, {q}_2;
        drop sequence {q}_position, {q}_turn, {q}_removed, fencepost.asleep_q{id}', '{q}', 'fencepost.q' || queue_id), '{id}', queue_id::text);
end
$$;
