-- What owners of slots call, by those who may consume any queue or were granted the queue's own functions.
-- What is called most pins no search path: every name in it says where it is, and there is no operator.

-- For drivers: claims any claimable slot, or the one wanted; with what comes along.
create or replace function fencepost._claim(
    queue text, consumer text, worker text, ttl interval, nonce text, wanted integer default null,
    out slot integer, out epoch bigint, out expires_at timestamptz, out origin text, out lost_by bigint, out open fencepost.state_0
)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if has_function_privilege('fencepost._any_claim'::regproc, 'execute') then
        return query select * from fencepost._any_claim(queue, consumer, worker, ttl, nonce, wanted);
        return;
    end if;
    return query execute fencepost._by_queue(queue, 'claim', 'consumer => $1, word => $2, span => $3, nonce => $4, slot => $5')
        using consumer, worker, ttl, nonce, wanted;
end
$$;

-- Claims any claimable slot of a consumer.
create or replace function fencepost.claim(
    queue text, consumer text, worker text, ttl interval default interval '30 s', nonce text default null,
    out slot integer, out epoch bigint, out expires_at timestamptz
)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select c.slot, c.epoch, c.expires_at from fencepost._claim(queue, consumer, worker, ttl, nonce) c;
end
$$;

-- Claims the given slot. No row while it is live, also for a worker of the same name.
create or replace function fencepost.claim_slot(
    queue text, consumer text, inout slot integer, worker text, ttl interval default interval '30 s', nonce text default null,
    out epoch bigint, out expires_at timestamptz
)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select c.slot, c.epoch, c.expires_at from fencepost._claim(queue, consumer, worker, ttl, nonce, slot) c;
end
$$;

-- For drivers: what a receive, or an ack with a receive, hands out.
create or replace function fencepost._receive(queue text, consumer text, slot integer, epoch bigint, most integer, finished bigint default null)
returns setof fencepost.handed
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    number integer := fencepost._received_from(case when finished is null then 'receive' else 'ack_receive' end, queue, epoch, most);
begin
    return query execute 'select * from ' || fencepost._receiver(number) || '($1, $2, $3, $4, $5, $6)'
        using queue, consumer, slot, epoch, most, finished;
end
$$;

-- The statement that makes messages of what a queue's function hands out. Told as one text, since rows that pass through one more function
-- are written down once more.
create or replace function fencepost._messages_of(queue_id integer) returns text
language sql stable
as $$
    select pg_catalog.format('select m.batch_id, m.id, ''p'' || m.position, m.key, m.kind, m.payload, coalesce(m.headers, ''{}''), m.attempt, m.deliveries, m.created_at
        from %s($1, $2, $3, $4, $5, $6) m where m.id is not null order by m.position', fencepost._receiver(queue_id))
$$;

-- The messages of the open batch again, or those of a new batch; no rows when nothing is there.
create or replace function fencepost.receive(queue text, consumer text, slot integer, epoch bigint, max integer default 100)
returns setof fencepost.message
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute fencepost._messages_of(fencepost._received_from('receive', queue, epoch, max))
        using queue, consumer, slot, epoch, max, null::bigint;
end
$$;

-- Acks the open batch and receives the next one, in one call and one commit.
create or replace function fencepost.ack_receive(queue text, consumer text, slot integer, epoch bigint, batch_id bigint, max integer default 100)
returns setof fencepost.message
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform fencepost._within('a batch id', ack_receive.batch_id, 1, 9223372036854775807);
    return query execute fencepost._messages_of(fencepost._received_from('ack_receive', queue, epoch, max))
        using queue, consumer, slot, epoch, max, ack_receive.batch_id;
end
$$;

-- Finishes the open batch. Returns how many messages were acked: 0, and no change, when this was the batch acked last.
create or replace function fencepost.ack(queue text, consumer text, slot integer, epoch bigint, batch_id bigint) returns integer
language plpgsql
as $$
declare
    acked integer;
begin
    if pg_catalog.has_function_privilege('fencepost._any_ack'::pg_catalog.regproc, 'execute') then
        return fencepost._any_ack(queue, consumer, slot, epoch, batch_id);
    end if;
    execute fencepost._by_queue(queue, 'ack', 'consumer => $1, slot => $2, epoch => $3, batch_id => $4') into acked
        using consumer, slot, epoch, batch_id;
    return acked;
end
$$;

-- Acks the open batch up to and with one of its messages; the rest stays open as the same batch.
create or replace function fencepost.ack_through(
    queue text, consumer text, slot integer, epoch bigint, batch_id bigint, message_id bigint
) returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    acked integer;
begin
    if has_function_privilege('fencepost._any_ack_through'::regproc, 'execute') then
        return fencepost._any_ack_through(queue, consumer, slot, epoch, batch_id, message_id);
    end if;
    execute fencepost._by_queue(queue, 'ack_through', 'consumer => $1, slot => $2, epoch => $3, batch_id => $4, message_id => $5') into acked
        using consumer, slot, epoch, batch_id, message_id;
    return acked;
end
$$;

-- For drivers: records what was decided about a message of the open batch; `operation` is nack, snooze or dead_letter.
create or replace function fencepost._dispose(
    operation text, queue text, consumer text, slot integer, epoch bigint, batch_id bigint, message_id bigint,
    retry_after interval, reason text, out what text, out due_at timestamptz, out withdrawn bigint[]
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if has_function_privilege('fencepost._any_dispose'::regproc, 'execute') then
        select d.* into what, due_at, withdrawn
            from fencepost._any_dispose(operation, queue, consumer, slot, epoch, batch_id, message_id, retry_after, reason) d;
        return;
    end if;
    execute fencepost._by_queue(queue, case operation when 'nack' then 'nack' when 'snooze' then 'snooze' else 'dead_letter' end,
            'consumer => $1, slot => $2, epoch => $3, batch_id => $4, message_id => $5, span => $6, word => $7')
        into what, due_at, withdrawn using consumer, slot, epoch, batch_id, message_id, retry_after, reason;
end
$$;

-- Records that a message of the open batch failed. It takes effect when the batch is acked: it comes again, by the consumer's backoff
-- unless `retry_after` says when, or is a dead letter when it is out of attempts.
create or replace function fencepost.nack(
    queue text, consumer text, slot integer, epoch bigint, batch_id bigint, message_id bigint, retry_after interval default null,
    reason text default null, out outcome text, out withdrawn bigint[]
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    select d.what, d.withdrawn into outcome, withdrawn
        from fencepost._dispose('nack', queue, consumer, slot, epoch, batch_id, message_id, retry_after, reason) d;
end
$$;

-- Puts a message of the open batch off; it spends no attempt. Returns the withdrawn messages.
create or replace function fencepost.snooze(
    queue text, consumer text, slot integer, epoch bigint, batch_id bigint, message_id bigint, retry_after interval
) returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform fencepost._time('delay', retry_after, interval '0', interval '365 days');
    return (select d.withdrawn
        from fencepost._dispose('snooze', queue, consumer, slot, epoch, batch_id, message_id, retry_after, null) d);
end
$$;

-- Gives a message of the open batch up: it becomes a dead letter when the batch is acked.
create or replace function fencepost.dead_letter(
    queue text, consumer text, slot integer, epoch bigint, batch_id bigint, message_id bigint, reason text
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if reason is null then
        perform fencepost._refuse('invalid_input', 'cannot use the text of a failure: it is NULL', jsonb_build_object('argument', 'reason'),
            'allowed is any text that is not blank');
    end if;
    perform fencepost._dispose('dead_letter', queue, consumer, slot, epoch, batch_id, message_id, null, reason);
end
$$;

-- Raises `fenced` unless the epoch is the owner's, and keeps a takeover waiting until the caller's transaction ends; renewals go on.
create or replace function fencepost.slot_guard(queue text, consumer text, slot integer, epoch bigint) returns void
language plpgsql
as $$
begin
    if pg_catalog.has_function_privilege('fencepost._any_slot_guard'::pg_catalog.regproc, 'execute') then
        perform fencepost._any_slot_guard(queue, consumer, slot, epoch);
    else
        execute fencepost._by_queue(queue, 'slot_guard', 'consumer => $1, slot => $2, epoch => $3') using consumer, slot, epoch;
    end if;
end
$$;

-- Extends the grants of some slots, each judged by its own epoch, by the TTL they were claimed with.
create or replace function fencepost.renew_slots(queue text, consumer text, slots integer[], epochs bigint[], out slot integer, out held boolean)
returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if has_function_privilege('fencepost._any_renew_slots'::regproc, 'execute') then
        return query select r.slot, r.held from fencepost._any_renew_slots(queue, consumer, slots, epochs) r;
    else
        return query execute fencepost._by_queue(queue, 'renew_slots', 'consumer => $1, slots => $2, epochs => $3') using consumer, slots, epochs;
    end if;
end
$$;

-- Extends one grant. False: lost, and only this means lost.
create or replace function fencepost.renew_slot(queue text, consumer text, slot integer, epoch bigint) returns boolean
language plpgsql
as $$
declare
    held boolean;
begin
    if pg_catalog.has_function_privilege('fencepost._any_renew_slot'::pg_catalog.regproc, 'execute') then
        return fencepost._any_renew_slot(queue, consumer, slot, epoch);
    end if;
    execute fencepost._by_queue(queue, 'renew_slot', 'consumer => $1, slot => $2, epoch => $3') into held using consumer, slot, epoch;
    return held;
end
$$;

-- Gives a slot back between batches. False: not held by this epoch; `open_batch` when a batch is open.
create or replace function fencepost.release_slot(queue text, consumer text, slot integer, epoch bigint) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    given boolean;
begin
    if has_function_privilege('fencepost._any_give_back'::regproc, 'execute') then
        return fencepost._any_give_back('release_slot', queue, consumer, slot, epoch);
    end if;
    execute fencepost._by_queue(queue, 'release_slot', 'consumer => $1, slot => $2, epoch => $3') into given using consumer, slot, epoch;
    return given;
end
$$;

-- Gives a slot back with its open batch, which the next claimant inherits without waiting. The epoch is void at once.
create or replace function fencepost.abandon_slot(queue text, consumer text, slot integer, epoch bigint) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    given boolean;
begin
    if has_function_privilege('fencepost._any_give_back'::regproc, 'execute') then
        return fencepost._any_give_back('abandon_slot', queue, consumer, slot, epoch);
    end if;
    execute fencepost._by_queue(queue, 'abandon_slot', 'consumer => $1, slot => $2, epoch => $3') into given using consumer, slot, epoch;
    return given;
end
$$;

-- For drivers: a sign of life, see member/heartbeat.sql.
create or replace function fencepost._heartbeat(
    queue text, consumer text, member text, worker text, ttl interval, slots integer[], epochs bigint[],
    out workers integer, out fewest integer, out slot_count integer, out held boolean[], out is_new boolean
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if has_function_privilege('fencepost._any_heartbeat'::regproc, 'execute') then
        select h.* into workers, fewest, slot_count, held, is_new
            from fencepost._any_heartbeat(queue, consumer, member, worker, ttl, slots, epochs) h;
        return;
    end if;
    execute fencepost._by_queue(queue, 'heartbeat', 'consumer => $1, nonce => $2, word => $3, span => $4, slots => $5, epochs => $6')
        into workers, fewest, slot_count, held, is_new using consumer, member, worker, ttl, slots, epochs;
end
$$;

-- For drivers: ends a membership. True when it was there.
create or replace function fencepost._leave(queue text, consumer text, member text) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    gone boolean;
begin
    if has_function_privilege('fencepost._any_leave'::regproc, 'execute') then
        return fencepost._any_leave(queue, consumer, member);
    end if;
    execute fencepost._by_queue(queue, 'leave', 'consumer => $1, nonce => $2') into gone using consumer, member;
    return gone;
end
$$;

-- Does what is due for one queue, or for all that the caller may consume, and returns how many steps did something.
create or replace function fencepost.maintain(queue text default null) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    steps bigint := 0;
    number integer;
begin
    if has_function_privilege('fencepost._any_maintain'::regproc, 'execute') then
        return fencepost._any_maintain(queue);
    elsif queue is not null then
        execute fencepost._by_queue(queue, 'maintain') into steps;
        return steps;
    end if;
    for number in select * from fencepost._consumable() loop
        execute fencepost._by_number(number, 'maintain') into steps;
        -- What has written something maintains nothing else.
        exit when steps > 0;
    end loop;
    return steps;
end
$$;
