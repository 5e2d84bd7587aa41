-- The number of a queue that is received from, or the error.
create or replace function fencepost._received_from(operation text, queue text, epoch bigint, most integer) returns integer
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    queue_id integer := (select q.id from fencepost.queue q where q.name = queue);
begin
    if queue_id is null then
        perform fencepost._read_committed(operation);
        perform fencepost._within('max', most, 1, 10000), fencepost._presented(epoch);
        queue_id := fencepost._queue_number(queue);
    end if;
    return queue_id;
end
$$;

-- What a receive or an ack with a receive on any queue does, by the queue's own function, see log/receive.sql.
create or replace function fencepost._any_receive(queue text, consumer text, slot integer, epoch bigint, most integer, finished bigint default null)
returns setof fencepost.handed
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    queue_id integer := fencepost._received_from(case when finished is null then 'receive' else 'ack_receive' end, queue, epoch, most);
begin
    return query execute 'select * from fencepost.q' || queue_id || '_receive($1, $2, $3, $4, $5, $6)'
        using queue, consumer, slot, epoch, most, finished;
end
$$;

-- Whether a slot where something was set aside has something to hand out or to pass over.
create or replace function fencepost._has_work(target fencepost.target, st fencepost.state_0, moment timestamptz) returns boolean
language plpgsql volatile
as $$
begin
    return exists (select from fencepost._due(target, st, moment))
        or fencepost._look(target, st.slot, row((st.cursor).h, fencepost._seen(st.cursor), null, null), 9223372036854775807,
            fencepost._snapshot(), 1) <> '{}'
        or (st.cursor).s is not null
            and fencepost._look(target, st.slot, st.cursor, 9223372036854775807, fencepost._seen(st.cursor), 1) <> '{}';
end
$$;

-- The error `conflict` of a call on another batch than the open one.
create or replace function fencepost._other_batch(operation text, target fencepost.target, slot integer, presented bigint, open bigint) returns void
language plpgsql
as $$
declare
    named text := (target).queue || '/' || (target).name;
begin
    perform fencepost._refuse('conflict',
        format('cannot %s batch `%s` on slot %s of consumer `%s`: the open batch is `%s`', operation, presented, slot, named, coalesce(open::text, 'none')),
        jsonb_build_object('batch_id', presented, 'open_batch_id', coalesce(to_jsonb(open), '"none"'), 'consumer', named, 'slot', slot),
        'finish the batch that the last receive returned');
end
$$;
