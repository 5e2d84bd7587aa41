-- Raises `fenced` unless the epoch is the owner's, and keeps a takeover waiting until the caller's transaction ends; renewals go on.
-- Valid at any isolation level: right, or told to try again. KEY SHARE takes an old version of a row without a word, so a caller with an
-- old snapshot is also compared with the newest version of the state, which every change of owner appends.
-- Locks: the slot's row FOR KEY SHARE.
create or replace function fencepost._any_slot_guard(queue text, consumer text, slot integer, epoch bigint) returns void
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
begin
    perform fencepost._presented(epoch);
    target := fencepost._consumer(queue, consumer);
    perform fencepost._slot_of(target, slot);
    select * into s from fencepost.slot x where x.consumer_id = target.id and x.slot = _any_slot_guard.slot for key share;
    if s.slot is null then
        s := fencepost._missing(target, slot);
    end if;
    st := fencepost._locked_state(target.id, slot);
    if not fencepost._is_own(s, epoch) then
        perform fencepost._fenced('slot_guard', target, s, epoch);
    end if;
    perform fencepost._bound_transaction(st.expires_at);
end
$$;

-- Extends the grants of some slots, each judged by its own epoch, by the TTL they were claimed with, also after expiry as long as nobody
-- took over. A slot that the consumer does not have is lost like any other.
-- Locks: the slots' rows FOR NO KEY UPDATE, in order.
create or replace function fencepost._any_renew_slots(queue text, consumer text, slots integer[], epochs bigint[], out slot integer, out held boolean)
returns setof record
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
    asked record;
begin
    perform fencepost._read_committed('renew_slots');
    target := fencepost._consumer(queue, consumer);
    if slots is null or epochs is null or cardinality(slots) <> cardinality(epochs) then
        perform fencepost._refuse('invalid_input', format('cannot renew `%s` slots by `%s` epochs',
            coalesce(cardinality(slots)::text, 'NULL'), coalesce(cardinality(epochs)::text, 'NULL')),
            jsonb_build_object('argument', 'epochs'), 'give one epoch a slot');
    end if;
    for asked in select u.* from unnest(slots, epochs) u (slot, epoch) order by u.slot loop
        perform fencepost._within('a slot', asked.slot, 0, 255);
        perform fencepost._presented(asked.epoch);
        slot := asked.slot;
        select * into s from fencepost.slot x where x.consumer_id = target.id and x.slot = asked.slot for no key update;
        held := s.slot is not null and fencepost._is_own(s, asked.epoch);
        if held then
            perform fencepost._durable();
            st := fencepost._state(target.id, asked.slot);
            st.expires_at := fencepost._clock() + s.ttl;
            perform fencepost._append(st);
        end if;
        return next;
    end loop;
end
$$;

-- Extends one grant. False: lost, and only this means lost.
create or replace function fencepost._any_renew_slot(queue text, consumer text, slot integer, epoch bigint) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
begin
    perform fencepost._slot_of(fencepost._consumer(queue, consumer), slot);
    return (select r.held from fencepost._any_renew_slots(queue, consumer, array[slot], array[epoch]) r);
end
$$;

-- Gives a slot back. True: it was held by this epoch and is not any more.
-- Locks: the slot's row FOR UPDATE; then the state is read, in a later statement, so that a batch opened a moment ago is seen.
create or replace function fencepost._any_give_back(operation text, queue text, consumer text, slot integer, epoch bigint) returns boolean
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
    named text := queue || '/' || consumer;
begin
    perform fencepost._read_committed(operation);
    perform fencepost._presented(epoch);
    target := fencepost._consumer(queue, consumer);
    perform fencepost._slot_of(target, slot);
    select * into s from fencepost.slot x where x.consumer_id = target.id and x.slot = _any_give_back.slot for update;
    if s.slot is null then
        s := fencepost._missing(target, slot);
    end if;
    if not fencepost._is_own(s, epoch) then
        return false;
    end if;
    st := fencepost._state(target.id, slot);
    if operation = 'release_slot' and st.batch_id is not null then
        perform fencepost._refuse('open_batch',
            format('cannot release_slot on slot %s of consumer `%s`: its batch `%s` is open', slot, named, st.batch_id),
            jsonb_build_object('batch_id', st.batch_id, 'consumer', named, 'slot', slot, 'holder', s.worker, 'expires_at', st.expires_at),
            'ack the batch first, or abandon the slot to hand the batch to the next claimant at once');
    end if;
    update fencepost.slot x set worker = null, nonce = null where x.consumer_id = s.consumer_id and x.slot = s.slot;
    perform fencepost._append(st);
    perform fencepost._wake(fencepost._slots_topic(queue, consumer));
    return true;
end
$$;

-- Takes a slot from whoever owns it, for an operator. The epoch rises; an open batch stays for the next claimant, without counting as a
-- crash. Kept in the slot's history with the reason, the last 100 of a consumer.
-- Locks: the slot's row FOR UPDATE, waiting for a second at most.
create or replace function fencepost.force_release_slot(queue text, consumer text, slot integer, reason text) returns bigint
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
    next_epoch bigint;
    -- First, since a new one makes epochs jump over those that were lost with the old one.
    generation_now integer := fencepost._generation();
    bound text := current_setting('lock_timeout');
    blocker integer;
begin
    perform fencepost._read_committed('force_release_slot');
    perform fencepost._name('a reason', reason);
    target := fencepost._consumer(queue, consumer);
    perform fencepost._slot_of(target, slot);
    begin
        perform set_config('lock_timeout', '900ms', true);
        select * into s from fencepost.slot x where x.consumer_id = target.id and x.slot = force_release_slot.slot for update;
        perform set_config('lock_timeout', bound, true);
    exception when lock_not_available then
        blocker := fencepost._blocked_by(target.id, slot);
        perform fencepost._refuse('busy',
            format('cannot force_release_slot on slot %s of consumer `%s/%s`: the backend `%s` has it locked', slot, queue, consumer,
                coalesce(blocker::text, 'unknown')),
            jsonb_build_object('consumer', queue || '/' || consumer, 'slot', slot, 'pid', blocker),
            'wait for its transaction, which the server ends at the lease''s end, or end it by pg_terminate_backend');
    end;
    if s.slot is null then
        -- RACE: it was dropped meanwhile, and may have been made again.
        return fencepost.force_release_slot(queue, consumer, slot, reason);
    end if;
    next_epoch := fencepost._epoch(s.epoch);
    update fencepost.slot x set epoch = next_epoch, worker = null, nonce = null, generation = generation_now
        where x.consumer_id = s.consumer_id and x.slot = s.slot;
    perform fencepost._append(fencepost._state(s.consumer_id, s.slot));
    insert into fencepost.slot_forced (consumer_id, slot, at, epoch, held_by, reason)
        values (s.consumer_id, s.slot, fencepost._clock(), next_epoch, s.worker, force_release_slot.reason);
    delete from fencepost.slot_forced f where f.consumer_id = s.consumer_id and f.id not in (
        select k.id from fencepost.slot_forced k where k.consumer_id = s.consumer_id order by k.id desc limit 100);
    perform fencepost._wake(fencepost._slots_topic(queue, consumer));
    return next_epoch;
end
$$;

-- The backend whose open transaction has a slot's row locked or changed, if there is one: the row names the transaction. Nothing is
-- locked to find out. While several transactions share the lock the row names none of them.
create or replace function fencepost._blocked_by(consumer_id integer, slot integer) returns integer
language sql volatile
as $$
    select l.pid from fencepost.slot x join pg_locks l on l.locktype = 'transactionid' and l.transactionid = x.xmax and l.granted
    where x.consumer_id = _blocked_by.consumer_id and x.slot = _blocked_by.slot and x.xmax <> '0' and l.pid <> pg_backend_pid()
    limit 1
$$;
