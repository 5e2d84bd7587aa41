-- Whether somebody who claims gets the slot: nobody owns it, or the owner's time is over. After the store has moved to another server
-- or timeline the old owner's time counts from when that was first seen.
create or replace function fencepost._is_claimable(s fencepost.slot, expires timestamptz) returns boolean
language plpgsql volatile
as $$
begin
    if s.worker is null then
        return true;
    end if;
    if s.generation <> fencepost._generation() then
        return (select g.seen_at from fencepost.generation g where g.id = fencepost._generation())
            + s.ttl + interval '1 second' <= fencepost._clock();
    end if;
    return expires <= fencepost._clock();
end
$$;

-- Grants a slot whose row is locked, and whose state was read after that. Whatever batch is open comes along.
-- `origin` says how the grant came about: fresh, inherited, taken_over, convicted; `lost_by` whose epoch lost the batch.
create or replace function fencepost._grant(
    target fencepost.target, s fencepost.slot, st fencepost.state_0, worker text, ttl interval, nonce text,
    out epoch bigint, out expires_at timestamptz, out origin text, out lost_by bigint
)
language plpgsql
as $$
declare
    crashed boolean := st.batch_id is not null and s.worker is not null;
    suspect fencepost.kept;
    handed integer;
    -- First, since a new one makes epochs jump over those that were lost with the old one.
    generation_now integer := fencepost._generation();
begin
    epoch := fencepost._epoch(s.epoch);
    expires_at := fencepost._clock() + ttl;
    origin := case when st.batch_id is null then 'fresh' when crashed then 'taken_over' else 'inherited' end;
    if crashed then
        lost_by := s.epoch;
    end if;
    if crashed and st.size > 0 and st.crashes + 1 >= (case when st.alone then 2 else (target).max_crashes end) then
        select * into suspect from fencepost._undecided(target, st) u order by u.position limit 1;
        if st.alone then
            origin := 'convicted';
            handed := st.deliveries;
            st := fencepost._closed(fencepost._decide(target, st, suspect, 'dead', null, 'crashes', null));
            st := fencepost._settled(target, st, null, handed);
        else
            st := fencepost._isolated(target, st, suspect);
        end if;
    elsif st.batch_id is not null then
        st.deliveries := st.deliveries + 1;
        st.crashes := st.crashes + crashed::integer;
    end if;
    update fencepost.slot x set epoch = _grant.epoch, worker = _grant.worker, nonce = _grant.nonce, ttl = _grant.ttl,
        generation = generation_now
        where x.consumer_id = s.consumer_id and x.slot = s.slot;
    st.expires_at := expires_at;
    perform fencepost._append(st);
end
$$;

-- The state with its open batch closed: the cursor is past exactly it.
create or replace function fencepost._closed(st fencepost.state_0) returns fencepost.state_0
language plpgsql immutable
as $$
begin
    st.cursor := st.next;
    st.last_acked := st.batch_id;
    st.batch_id := null;
    st.next := null;
    st.size := null;
    st.deliveries := null;
    st.crashes := null;
    st.plain := null;
    st.alone := null;
    return st;
end
$$;

-- The state with its open batch cut to its first message without a disposition; what follows in it comes one by one.
create or replace function fencepost._isolated(target fencepost.target, st fencepost.state_0, suspect fencepost.kept) returns fencepost.state_0
language plpgsql
as $$
declare
    handed integer := st.deliveries;
begin
    st.isolated := st.next;
    -- One that came again is not of the log's range, and moves no cursor.
    st.next := case when suspect.place is null then fencepost._cut(st.cursor, st.next, suspect.position) else st.cursor end;
    st.size := 1;
    st.deliveries := st.deliveries + 1;
    st.crashes := 0;
    st.plain := false;
    st.alone := true;
    update fencepost.aside a set place = 'alone', deliveries = a.deliveries + handed
        where a.consumer_id = (target).id and a.partition = any(fencepost._share(st.slot, (target).slots, (target).partitions))
            and a.place = 'batch' and a.batch >= coalesce(st.batch_from, 0) and a.position <> suspect.position;
    return st;
end
$$;

-- Claims one slot, if its row is not locked by somebody else and it is claimable. No row when not.
-- Locks: the slot's row FOR UPDATE, never waiting. INVARIANT: the state is read by a statement that begins after the lock is there; a
-- claim written as one statement would judge by the snapshot from before a renewal and steal a live slot.
create or replace function fencepost._try_claim(
    target fencepost.target, slot smallint, worker text, ttl interval, nonce text,
    out epoch bigint, out expires_at timestamptz, out origin text, out lost_by bigint
)
language plpgsql
as $$
declare
    s fencepost.slot;
    st fencepost.state_0;
begin
    select * into s from fencepost.slot x where x.consumer_id = (target).id and x.slot = _try_claim.slot for update skip locked;
    if s.slot is null then
        return;
    end if;
    st := fencepost._state(s.consumer_id, s.slot);
    if fencepost._is_claimable(s, st.expires_at) then
        select g.* into epoch, expires_at, origin, lost_by from fencepost._grant(target, s, st, worker, ttl, nonce) g;
    elsif s.nonce = _try_claim.nonce and s.generation = fencepost._generation() then
        epoch := s.epoch;
        expires_at := st.expires_at;
        origin := 'stored';
    end if;
end
$$;

-- Checks what a claim is given.
create or replace function fencepost._claimant(worker text, ttl interval, nonce text) returns interval
language plpgsql volatile
as $$
begin
    perform fencepost._read_committed('claim');
    perform fencepost._name('a worker name', worker);
    if nonce is not null then
        perform fencepost._name('a nonce', nonce);
    end if;
    return fencepost._ttl(ttl);
end
$$;

-- Claims any claimable slot: first a live one that was granted to the same nonce, then the slots in order. None: no row.
-- What cannot be claimed is passed over by an unlocked look; a locked slot counts as taken.
create or replace function fencepost._any_claim(
    queue text, consumer text, worker text, ttl interval, nonce text, wanted integer default null,
    out slot integer, out epoch bigint, out expires_at timestamptz, out origin text, out lost_by bigint, out open fencepost.state_0
)
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
    candidate fencepost.slot;
begin
    ttl := fencepost._claimant(worker, ttl, nonce);
    target := fencepost._consumer(queue, consumer);
    if wanted is not null then
        perform fencepost._slot_of(target, wanted);
    end if;
    for candidate in
        select x.* from fencepost.slot x
        where x.consumer_id = target.id and (wanted is null or x.slot = wanted)
        order by (x.nonce = _any_claim.nonce) is true desc, x.slot
    loop
        if (candidate.nonce = nonce) is true or fencepost._is_claimable(candidate, (fencepost._state(candidate.consumer_id, candidate.slot)).expires_at) then
            select candidate.slot, c.* into slot, epoch, expires_at, origin, lost_by
                from fencepost._try_claim(target, candidate.slot, worker, ttl, nonce) c;
            if epoch is not null then
                open := fencepost._state(target.id, candidate.slot);
                return next;
                return;
            end if;
        end if;
    end loop;
end
$$;
