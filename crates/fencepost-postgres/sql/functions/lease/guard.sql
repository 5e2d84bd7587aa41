-- Ends the caller's transaction from the server's side when it idles past the end of a grant, so that a paused owner stands in
-- nobody's way for longer. At least 1 s, and never later than what the caller or an earlier guard has set.
create or replace function fencepost._bound_transaction(expires_at timestamptz) returns void
language plpgsql
as $$
declare
    remaining interval := greatest(interval '1 second', expires_at - fencepost._clock());
    bound text;
    own interval;
begin
    foreach bound in array array['idle_in_transaction_session_timeout', 'transaction_timeout'] loop
        own := current_setting(bound, true)::interval;
        if own = interval '0' or own > remaining then
            perform set_config(bound, ceil(extract(epoch from remaining) * 1000)::bigint::text, true);
        end if;
    end loop;
end
$$;

-- Makes the caller's transaction valid only under a grant: raises `fenced` unless the epoch is the holder's, and nobody else is
-- granted the lease before the transaction ends. Its expiry is not judged.
-- Locks: the lease's row FOR KEY SHARE, which goes with renewals and other guards; it waits for an acquire, release or force, at most 5 s.
-- INVARIANT: at REPEATABLE READ and above the grant that the old snapshot shows is locked too: when it was replaced since, that
-- fails with 40001, as it does when the lease's row is younger than the snapshot. So it never judges by what is over.
create or replace function fencepost._any_lease_guard(name text, epoch bigint) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
set lock_timeout = '5s'
as $$
declare
    old_snapshot boolean := current_setting('transaction_isolation') in ('repeatable read', 'serializable');
    found_id bigint;
    state fencepost._lease_state;
    current_epoch bigint;
begin
    perform fencepost._name('a lease name', name), fencepost._presented(epoch);
    select l.id into found_id from fencepost.lease l where l.name = _any_lease_guard.name for key share;
    if old_snapshot then
        if found_id is null then
            -- A row that the snapshot does not show collides; one that is inserted goes with the refusal.
            insert into fencepost.lease (name) values (_any_lease_guard.name) on conflict do nothing;
        end if;
        -- FOR SHARE, as FOR KEY SHARE takes the old version of a replaced row without a word.
        perform from fencepost.lease_grant g
        where g.lease_id = found_id
            and g.term = (select n.term from fencepost.lease_grant n where n.lease_id = found_id order by n.term desc limit 1)
        for share;
    end if;
    select * into state from fencepost._lease_state l where l.id = found_id;
    if not fencepost._lease_is_own(state, epoch, fencepost._generation()) then
        current_epoch := case when state.holder is not null then state.epoch end;
        perform fencepost._refuse('fenced',
            format('cannot guard by the lease `%s`: epoch `%s` is not its holder''s, the current one is `%s`',
                name, epoch, coalesce(current_epoch::text, 'none')),
            jsonb_build_object('lease', name, 'presented_epoch', epoch, 'current_epoch', coalesce(to_jsonb(current_epoch), '"none"'),
                'holder', state.holder, 'expires_at', state.expires_at),
            'the lease was granted to somebody else or given back; drop what this holder was doing and acquire again');
    end if;
    perform fencepost._bound_transaction(state.expires_at);
end
$$;
