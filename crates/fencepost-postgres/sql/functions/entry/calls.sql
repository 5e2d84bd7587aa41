-- What a queue's consumers call through the queue's own function {q}_consume, and holders of leases through that of their prefix: the
-- statement that runs with the owner's rights, and the columns that it answers. Only what stands here can be called that way.

-- Of {q}_consume. $1 is the queue's name, then consumer, slot, epoch, batch_id, message_id, span, word, nonce, slots, epochs.
create or replace function fencepost._consumer_calls() returns table (call text, statement text, columns text)
language sql immutable
as $$
    values
        ('ack', 'select fencepost._any_ack($1, $2, $3, $4, $5)', 'acked integer'),
        ('ack_through', 'select fencepost._any_ack_through($1, $2, $3, $4, $5, $6)', 'acked integer'),
        ('nack', 'select * from fencepost._any_dispose(''nack'', $1, $2, $3, $4, $5, $6, $7, $8)',
            'what pg_catalog.text, due_at pg_catalog.timestamptz, withdrawn bigint[]'),
        ('snooze', 'select * from fencepost._any_dispose(''snooze'', $1, $2, $3, $4, $5, $6, $7, $8)',
            'what pg_catalog.text, due_at pg_catalog.timestamptz, withdrawn bigint[]'),
        ('dead_letter', 'select * from fencepost._any_dispose(''dead_letter'', $1, $2, $3, $4, $5, $6, $7, $8)',
            'what pg_catalog.text, due_at pg_catalog.timestamptz, withdrawn bigint[]'),
        ('slot_guard', 'select fencepost._any_slot_guard($1, $2, $3, $4)::text', 'done pg_catalog.text'),
        ('renew_slot', 'select fencepost._any_renew_slot($1, $2, $3, $4)', 'held boolean'),
        ('renew_slots', 'select * from fencepost._any_renew_slots($1, $2, $10, $11)', 'slot integer, held boolean'),
        ('release_slot', 'select fencepost._any_give_back(''release_slot'', $1, $2, $3, $4)', 'given boolean'),
        ('abandon_slot', 'select fencepost._any_give_back(''abandon_slot'', $1, $2, $3, $4)', 'given boolean'),
        ('claim', 'select * from fencepost._any_claim($1, $2, $8, $7, $9, $3)',
            'slot integer, epoch bigint, expires_at pg_catalog.timestamptz, origin pg_catalog.text, lost_by bigint, open fencepost.state_0'),
        ('heartbeat', 'select * from fencepost._any_heartbeat($1, $2, $9, $8, $7, $10, $11)',
            'workers integer, fewest integer, slot_count integer, held boolean[], is_new boolean'),
        ('leave', 'select fencepost._any_leave($1, $2, $9)', 'gone boolean'),
        ('members', 'select * from fencepost._any_members($1, $2)', 'worker pg_catalog.text, held integer, expires_at pg_catalog.timestamptz'),
        ('next_due', 'select fencepost._any_next_due($1, $2, $3)', 'due interval'),
        ('maintain', 'select fencepost._any_maintain($1)', 'steps bigint'),
        ('read', 'select * from fencepost._any_read($1, $8, $3)',
            'position bigint, id bigint, key pg_catalog.text, kind pg_catalog.text, payload pg_catalog.bytea, headers pg_catalog.jsonb, created_at pg_catalog.timestamptz, next fencepost.cursor'),
        ('queue_status', 'select * from fencepost._any_queue_status($1)',
            'queue pg_catalog.text, partitions integer, consumers bigint, paused boolean, retain_for interval, retain_unread interval,
            retain_unread_bytes bigint, delayed bigint, stored bigint, oldest_at pg_catalog.timestamptz'),
        ('slot_report', 'select * from fencepost._any_slot_report($1)',
            'queue pg_catalog.text, consumer pg_catalog.text, slot integer, state pg_catalog.text, holder pg_catalog.text, epoch bigint, nonce pg_catalog.text, ttl interval, expires_at pg_catalog.timestamptz,
            cursor_position bigint, batch_id bigint, through bigint, size integer, deliveries integer, crashes integer, plain boolean,
            alone boolean, last_acked bigint, isolated bigint, lag bigint, retrying bigint, parked bigint, first_at pg_catalog.timestamptz, blocked_by integer'),
        ('consumer_report', 'select * from fencepost._any_consumer_report($1, $3 <> 0)',
            'queue pg_catalog.text, consumer pg_catalog.text, slots integer, on_failure pg_catalog.text, max_attempts integer, max_crashes integer, backoff interval,
            lag bigint, retrying bigint, parked bigint, dead bigint, workers bigint, first_at pg_catalog.timestamptz'),
        ('dead_letters', 'select * from fencepost._any_dead_letters($1, $2, $4, $5)',
            'queue_id integer, consumer pg_catalog.text, id bigint, position bigint, partition smallint, key pg_catalog.text, kind pg_catalog.text, payload pg_catalog.bytea,
            headers pg_catalog.jsonb, created_at pg_catalog.timestamptz, attempts integer, cause pg_catalog.text, reason pg_catalog.text, died_at pg_catalog.timestamptz'),
        ('dead_counts', 'select * from fencepost._any_dead_counts($1)', 'queue pg_catalog.text, consumer pg_catalog.text, dead bigint'),
        ('slot_history', 'select * from fencepost._any_slot_history($1, $2)',
            'id bigint, consumer_id integer, slot smallint, at pg_catalog.timestamptz, epoch bigint, held_by pg_catalog.text, reason pg_catalog.text'),
        ('mark', 'select * from fencepost._topic_mark(fencepost._topic_of($1, $2))', 'mark bigint, quiet boolean'),
        ('sleep', 'select fencepost._any_sleep(array[fencepost._topic_of($1, $2)])::text', 'done pg_catalog.text')
$$;

-- Of a prefix's function. $1 is the lease's name, or for `list` what the names begin with; then holder, epoch, span, nonce.
create or replace function fencepost._lease_calls() returns table (call text, statement text, columns text)
language sql immutable
as $$
    values
        ('acquire', 'select * from fencepost._any_lease_acquire($1, $2, $4, $5)',
            'outcome pg_catalog.text, granted boolean, epoch bigint, holder pg_catalog.text, expires_at pg_catalog.timestamptz, since pg_catalog.timestamptz, at pg_catalog.timestamptz, is_new boolean'),
        ('renew', 'select fencepost._any_lease_renew($1, $3, $4)', 'held boolean'),
        ('release', 'select fencepost._any_lease_release($1, $3)', 'given boolean'),
        ('guard', 'select fencepost._any_lease_guard($1, $3)::text', 'done pg_catalog.text'),
        ('state', 'select * from fencepost._any_lease_states($1)',
            'name pg_catalog.text, epoch bigint, holder pg_catalog.text, nonce pg_catalog.text, ttl_micros bigint, since pg_catalog.timestamptz, expires_at pg_catalog.timestamptz'),
        ('list', 'select * from fencepost._any_lease_states() s where starts_with(s.name, $1)',
            'name pg_catalog.text, epoch bigint, holder pg_catalog.text, nonce pg_catalog.text, ttl_micros bigint, since pg_catalog.timestamptz, expires_at pg_catalog.timestamptz'),
        ('history', 'select * from fencepost._any_lease_history($1)', 'at pg_catalog.timestamptz, epoch bigint, from_holder pg_catalog.text, reason pg_catalog.text'),
        ('mark', 'select * from fencepost._topic_mark(''lease/'' || $1)', 'mark bigint, quiet boolean'),
        ('sleep', 'select fencepost._any_sleep(array[''lease/'' || $1])::text', 'done pg_catalog.text')
$$;

-- The statement of a call, or the error.
create or replace function fencepost._statement_of(statement text, call text) returns text
language plpgsql immutable
as $$
begin
    if statement is null then
        perform fencepost._refuse('invalid_input', format('cannot call `%s`', left(coalesce(call, 'NULL'), 40)),
            jsonb_build_object('argument', 'call'), 'call the functions that the guide names; they call this one');
    end if;
    return statement;
end
$$;
