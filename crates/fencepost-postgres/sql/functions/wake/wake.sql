-- Wake-ups between processes. A topic is `lease/NAME`, `messages/QUEUE`, `channel/NAME`, `schedules` or `slots/QUEUE/CONSUMER`, the names with their lengths where
-- two stand together. They are hints: who sleeps looks again by itself, see _marks.

-- What a topic is called in a notification: short, and never too long for one, whatever the name.
-- The first bytes of a SHA-256, the same in every version of the server.
create or replace function fencepost._topic_hash(topic text) returns bigint
language sql stable
as $$
    select ('x' || pg_catalog.encode(pg_catalog.substr(pg_catalog.sha256(pg_catalog.convert_to(topic, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint
$$;

-- The sequence that says until when somebody sleeps on a topic: a queue's own one, so that others' sleepers cost it nothing; for leases
-- and slots one that a group of topics share.
create or replace function fencepost._asleep(topic text) returns regclass
language plpgsql stable
as $$
declare
    queue_id integer;
begin
    if topic like 'messages/%' then
        queue_id := (select q.id from fencepost.queue q where q.name = substr(topic, 10));
        if queue_id is not null then
            return ('fencepost.asleep_q' || queue_id)::regclass;
        end if;
    end if;
    return ('fencepost.asleep_' || (fencepost._topic_hash(topic) & 15))::regclass;
end
$$;

-- Wakes who sleeps on a topic, once the transaction commits. Nothing is sent unless somebody sleeps: a notification makes every other
-- one in the cluster wait for its commit.
-- Real time, not the engine's clock: that may stand still in tests, and sleepers do not.
create or replace function fencepost._wake(topic text) returns void
language plpgsql
as $$
begin
    if pg_sequence_last_value(fencepost._asleep(topic)) > date_part('epoch', clock_timestamp()) * 1000000 then
        perform pg_notify('fencepost', fencepost._topic_hash(topic)::text);
    end if;
end
$$;

-- Registers sleepers on topics for the next 15 s. Call it each 5 s at most; most calls find that others have registered, and write
-- nothing.
create or replace function fencepost._any_sleep(topics text[]) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
declare
    now_micros bigint := extract(epoch from clock_timestamp()) * 1000000;
    asleep regclass;
begin
    for asleep in select distinct fencepost._asleep(t) from unnest(topics) t loop
        -- Two who do it at once set what differs by nothing that matters.
        if coalesce(pg_sequence_last_value(asleep), 0) < now_micros + 8000000 then
            perform setval(asleep, now_micros + 15000000);
        end if;
    end loop;
end
$$;

-- How a topic stands: a number that rises once something happened to it that a sleeper may want to hear of, NULL for nothing
-- yet; and whether there is nothing that a sleeper could want now, so that it need not be woken to make sure.
create or replace function fencepost._topic_mark(topic text, out mark bigint, out quiet boolean)
language plpgsql volatile
as $$
begin
    quiet := true;
    case split_part(topic, '/', 1)
        when 'lease' then
            select l.mark, l.quiet into mark, quiet from fencepost._lease_mark(substr(topic, 7)) l;
        when 'messages' then
            select m.mark, m.quiet into mark, quiet from fencepost._messages_mark(substr(topic, 10)) m;
        when 'slots' then
            select s.mark, s.quiet into mark, quiet from fencepost._slots_mark(topic) s;
        when 'schedules' then
            -- What was numbered before it was committed may be there only now.
            mark := pg_sequence_last_value('fencepost.schedule_changes');
            quiet := false;
        else
            null;
    end case;
    quiet := coalesce(quiet, true);
end
$$;

-- How topics stand, in the order given, and the hashes that notifications carry. Reads only.
create or replace function fencepost._any_marks(topics text[])
returns table (hash bigint, mark bigint, quiet boolean)
language sql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $$
    select fencepost._topic_hash(t.topic), m.mark, m.quiet
    from unnest(topics) with ordinality as t (topic, place)
    cross join lateral fencepost._topic_mark(t.topic) m
    order by t.place
$$;
