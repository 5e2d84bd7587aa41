-- Records what was decided about a message of the open batch: `what` is retry, snooze or dead. Returns the later messages of its key in
-- the batch that are withdrawn, because it comes again first. `due` and `cause` depend on how often it failed, so `judge` is told by what.
-- Locks: the slot's row FOR NO KEY UPDATE.
create or replace function fencepost._any_dispose(
    operation text, queue text, consumer text, slot integer, epoch bigint, batch_id bigint, message_id bigint,
    retry_after interval, reason text, out what text, out due_at timestamptz, out withdrawn bigint[]
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
    s fencepost.slot;
    st fencepost.state_0;
    named fencepost.kept;
    follower fencepost.kept;
    fresh boolean;
    later bigint[];
    cause text;
begin
    perform fencepost._read_committed(operation);
    perform fencepost._within('a batch id', batch_id, 1, 9223372036854775807);
    perform fencepost._within('a message id', message_id, 1, 9223372036854775807);
    perform fencepost._failure_text(reason);
    if retry_after is not null then
        retry_after := fencepost._time('delay', retry_after, interval '0', interval '365 days');
    end if;
    target := fencepost._consumer(queue, consumer);
    s := fencepost._own(operation, target, slot, epoch);
    st := fencepost._state(target.id, slot);
    perform fencepost._bound_transaction(st.expires_at);
    if st.batch_id is distinct from _any_dispose.batch_id then
        perform fencepost._other_batch(operation, target, slot, batch_id, st.batch_id);
    end if;
    select * into named from fencepost._undecided(target, st) u where u.id = message_id order by u.position limit 1;
    fresh := named.position is not null;
    if not fresh then
        select * into named from fencepost._decided(target, st) d where d.id = message_id order by d.position limit 1;
    end if;
    if named.position is null then
        perform fencepost._foreign(operation, target, slot, st.batch_id, message_id);
    end if;

    what := case operation when 'nack' then 'retry' when 'snooze' then 'snooze' else 'dead' end;
    if what = 'retry' and named.failures + 1 >= target.max_attempts then
        what := 'dead';
        cause := 'attempts';
    elsif what = 'dead' then
        cause := 'rejected';
    else
        due_at := fencepost._clock() + coalesce(retry_after, fencepost._pause(target, named.failures + 1));
    end if;

    withdrawn := '{}';
    later := '{}';
    if target.on_failure = 'pause' and what <> 'dead' and named.key is not null then
        select coalesce(array_agg(l.position), '{}') into later
            from fencepost._undecided(target, st) l where l.key = named.key and l.position > named.position;
        withdrawn := array(
            select m.id from (
                select l.position, l.id from fencepost._undecided(target, st) l where l.position = any(later)
                union all
                select d.position, d.id from fencepost._decided(target, st) d
                where d.key = named.key and d.position > named.position and d.place = 'withdrawn') m
            order by m.position);
        for follower in select l.* from fencepost._undecided(target, st) l where l.position = any(later) loop
            st := fencepost._decide(target, st, follower, 'withdrawn', null, null, null);
        end loop;
    end if;
    st := fencepost._decide(target, st, named, what, due_at, cause, reason);
    st.size := st.size - fresh::integer - cardinality(later);
    st.plain := false;
    st.expires_at := fencepost._extended(s, st.expires_at);
    perform fencepost._append(st);
end
$$;

-- The pause after so many failures: exponential backoff with full jitter, doubling up to 1 h unless the first one is longer.
create or replace function fencepost._pause(target fencepost.target, failures integer) returns interval
language sql volatile
as $$
    select pg_catalog.floor(pg_catalog.random() * (1 + extract(epoch from least(
        (target).backoff * pg_catalog.power(2, least(failures - 1, 30)),
        greatest(interval '1 hour', (target).backoff))) * 1000000)) * interval '1 microsecond'
$$;

-- Refuses what cannot be the text of a failure.
create or replace function fencepost._failure_text(value text) returns void
language plpgsql immutable
as $$
begin
    if octet_length(value) > 8192 then
        perform fencepost._refuse('limit_exceeded', format('cannot keep the text of a failure of `%s` bytes', octet_length(value)),
            jsonb_build_object('limit', 8192), 'a text may have 8192 bytes; keep its end, where the cause usually stands');
    elsif value ~ '^\s*$' then
        perform fencepost._refuse('invalid_input', 'cannot use the text of a failure: it is blank', jsonb_build_object('argument', 'reason'),
            'allowed is any other text');
    end if;
end
$$;
