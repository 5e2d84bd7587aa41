-- The state after an ack of its open batch: what was decided takes effect, and the grant is renewed when past half its TTL.
create or replace function fencepost._finish(target fencepost.target, s fencepost.slot, st fencepost.state_0) returns fencepost.state_0
language plpgsql
as $$
declare
    handed integer := st.deliveries;
    plain boolean := st.plain;
begin
    st := fencepost._closed(st);
    if not plain then
        st := fencepost._settled(target, st, null, handed);
    end if;
    st.expires_at := fencepost._extended(s, st.expires_at);
    return st;
end
$$;

-- Finishes the open batch. Returns how many messages were acked: 0, and no change, when this was the batch acked last.
-- Valid at any isolation level: right, or told to try again.
-- Locks: the slot's row FOR NO KEY UPDATE.
create or replace function fencepost._any_ack(queue text, consumer text, slot integer, epoch bigint, batch_id bigint) returns integer
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
    acked integer;
begin
    perform fencepost._within('a batch id', batch_id, 1, 9223372036854775807);
    target := fencepost._consumer(queue, consumer);
    s := fencepost._own('ack', target, slot, epoch);
    st := fencepost._locked_state(target.id, slot);
    perform fencepost._bound_transaction(st.expires_at);
    if st.batch_id = _any_ack.batch_id then
        acked := st.size;
        perform fencepost._append(fencepost._finish(target, s, st));
        return acked;
    elsif st.last_acked = _any_ack.batch_id then
        return 0;
    end if;
    perform fencepost._other_batch('ack', target, slot, batch_id, st.batch_id);
end
$$;

-- Acks the open batch up to and with one of its messages; the rest stays open as the same batch. Through the last message it is an ack.
-- Returns how many messages were acked: 0, and no change, when the cursor is past the message.
-- Locks: the slot's row FOR NO KEY UPDATE.
create or replace function fencepost._any_ack_through(
    queue text, consumer text, slot integer, epoch bigint, batch_id bigint, message_id bigint
) returns integer
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
    at bigint;
    acked integer;
    last boolean;
begin
    perform fencepost._within('a batch id', batch_id, 1, 9223372036854775807);
    perform fencepost._within('a message id', message_id, 1, 9223372036854775807);
    target := fencepost._consumer(queue, consumer);
    s := fencepost._own('ack_through', target, slot, epoch);
    st := fencepost._locked_state(target.id, slot);
    perform fencepost._bound_transaction(st.expires_at);
    if st.batch_id is distinct from _any_ack_through.batch_id then
        if st.last_acked = _any_ack_through.batch_id then
            return 0;
        end if;
        perform fencepost._other_batch('ack_through', target, slot, batch_id, st.batch_id);
    end if;
    with undecided as (select u.position, u.id from fencepost._undecided(target, st) u),
        every as (select * from undecided union all select d.position, d.id from fencepost._decided(target, st) d),
        named as (select min(e.position) as position from every e where e.id = message_id)
    select named.position, (select count(*) from undecided u where u.position <= named.position),
            not exists (select from every e where e.position > named.position)
        into at, acked, last from named;
    if at is null then
        if fencepost._is_behind(target, st, message_id) then
            return 0;
        end if;
        perform fencepost._foreign('ack_through', target, slot, st.batch_id, message_id);
    end if;
    if last then
        acked := st.size;
        perform fencepost._append(fencepost._finish(target, s, st));
        return acked;
    end if;
    st.cursor := fencepost._cut(st.cursor, st.next, at);
    st.size := st.size - acked;
    st.expires_at := fencepost._extended(s, st.expires_at);
    if not st.plain then
        st := fencepost._settled(target, st, at, st.deliveries);
    end if;
    perform fencepost._append(st);
    return acked;
end
$$;

-- Whether a message is of the slot and behind its cursor: acked, or set aside by an earlier ack, of this batch perhaps.
create or replace function fencepost._is_behind(target fencepost.target, st fencepost.state_0, message bigint) returns boolean
language plpgsql volatile
as $$
declare
    parts smallint[] := fencepost._share(st.slot, (target).slots, (target).partitions);
    behind boolean;
begin
    if exists (
        select from fencepost.aside a
        where a.consumer_id = (target).id and a.id = message and a.partition = any(parts) and a.position <= fencepost._end(st.cursor)) then
        return true;
    end if;
    -- A message that was held back sits behind its id; any other one at it. What counts as removed is not known any more.
    execute replace('
        select exists (
            select from {q}_0 l where l.partition = any($1) and l.position >= $2 and l.position > $4 and l.id = $2 and fencepost._in($3, l.position, l.xid)
            union all
            select from {q}_1 l where l.partition = any($1) and l.position >= $2 and l.position > $4 and l.id = $2 and fencepost._in($3, l.position, l.xid)
            union all
            select from {q}_2 l where l.partition = any($1) and l.position >= $2 and l.position > $4 and l.id = $2 and fencepost._in($3, l.position, l.xid))',
        '{q}', 'fencepost.q' || (target).queue_id) into behind using parts, message, st.cursor,
            fencepost._removed((target).queue_id);
    return behind;
end
$$;

-- The error `not_found` of a message that is not of the open batch.
create or replace function fencepost._foreign(operation text, target fencepost.target, slot integer, batch bigint, message bigint) returns void
language plpgsql
as $$
declare
    named text := (target).queue || '/' || (target).name;
begin
    perform fencepost._refuse('not_found',
        format('cannot %s message `%s` on slot %s of consumer `%s`: it is not in the open batch `%s`', operation, message, slot, named, batch),
        jsonb_build_object('batch_id', batch, 'message_id', message, 'consumer', named, 'slot', slot),
        'name a message that the last receive returned and that was not withdrawn or acked since');
end
$$;
