-- Whether a message has to wait: an earlier one of its key was set aside and comes again, under the policy that pauses.
create or replace function fencepost._waits(target fencepost.target, row_position bigint, row_key text) returns boolean
language sql volatile
as $$
    select (target).on_failure = 'pause' and row_key is not null and exists (
        select from fencepost.aside a
        where a.consumer_id = (target).id and a.key = row_key and a.position < row_position and a.place <> 'void')
$$;

-- Makes true what was decided about the messages that an ack covers, and lets go what waited for them. `st` is the state after the
-- ack; `through` limits it to the positions up to one; `handed` is how often the batch was handed out. Returns the state with what it
-- then has set aside.
create or replace function fencepost._settled(target fencepost.target, st fencepost.state_0, through bigint, handed integer) returns fencepost.state_0
language plpgsql
as $$
declare
    a fencepost.aside;
    comes_again boolean;
    touched text[] := '{}';
    moment timestamptz := fencepost._clock();
begin
    for a in
        select x.* from fencepost._of_batch(target, st) x
        where x.place <> 'alone'
            and case when through is not null then x.position <= through
                else x.place = 'batch' or fencepost._settles(st, x.position, fencepost._end(st.cursor)) end
        order by x.position
    loop
        if a.key is not null then
            touched := touched || a.key;
        end if;
        if a.place in ('batch', 'void', 'dead') then
            if a.place = 'dead' then
                perform fencepost._bury(target, a);
            end if;
            delete from fencepost.aside x where x.consumer_id = a.consumer_id and x.position = a.position;
            st.aside := st.aside - 1;
            continue;
        end if;
        comes_again := a.place <> 'withdrawn';
        update fencepost.aside x set
            place = case when not comes_again or fencepost._waits(target, a.position, a.key) then 'parked' else 'due' end,
            failures = a.failures + (a.place = 'retry')::integer,
            deliveries = a.deliveries + handed,
            batch = null
            where x.consumer_id = a.consumer_id and x.position = a.position;
        st.due_from := fencepost._earlier(st.due_from, a.due_at);
        -- Also of one that is behind another itself: a replay puts a head before what was let go already.
        if comes_again and (target).on_failure = 'pause' and a.key is not null then
            update fencepost.aside x set place = 'parked', due_at = null
                where x.consumer_id = a.consumer_id and x.key = a.key and x.position > a.position and x.place = 'due';
        end if;
    end loop;
    if (target).on_failure = 'pause' then
        perform fencepost._unpark(target, k) from (select distinct unnest(touched) k) keys;
        st.due_from := fencepost._earlier(st.due_from, moment);
    end if;
    return st;
end
$$;

-- Lets the parked messages of a key come again when the first of them waits for nothing any more, at most 1,000 at once.
create or replace function fencepost._unpark(target fencepost.target, row_key text) returns void
language plpgsql
as $$
declare
    head bigint := (
        select min(a.position) from fencepost.aside a
        where a.consumer_id = (target).id and a.key = row_key and a.place not in ('void', 'parked'));
begin
    update fencepost.aside x set place = 'due', due_at = fencepost._clock()
    where x.consumer_id = (target).id and x.position in (
        select a.position from fencepost.aside a
        where a.consumer_id = (target).id and a.key = row_key and a.place = 'parked' and (head is null or a.position < head)
        order by a.position limit 1000);
end
$$;

-- Makes a message a dead letter.
create or replace function fencepost._bury(target fencepost.target, a fencepost.aside) returns void
language sql
as $$
    insert into fencepost.dead as d (queue_id, consumer, id, position, partition, key, kind, payload, headers, created_at, attempts, cause, reason, died_at)
    values ((target).queue_id, (target).name, a.id, a.position, a.partition, a.key, a.kind, a.payload, a.headers, a.created_at,
        a.failures + 1, a.cause, a.reason, fencepost._clock())
    on conflict (queue_id, consumer, id) do update set
        position = excluded.position, attempts = excluded.attempts, cause = excluded.cause, reason = excluded.reason, died_at = excluded.died_at
$$;
