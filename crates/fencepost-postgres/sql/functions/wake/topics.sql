-- What the topics of queues and consumers are called, and how they stand for who sleeps on them.

-- The topic of what is appended to a queue.
create or replace function fencepost._messages_topic(queue text) returns text
language sql immutable
as $$ select 'messages/' || queue $$;

-- The topic of a consumer's slots and members. The length of the queue's name keeps the two names apart.
create or replace function fencepost._slots_topic(queue text, consumer text) returns text
language sql immutable
as $$ select 'slots/' || length(queue) || '/' || queue || '/' || consumer $$;

-- The topic of a queue's messages, or of a consumer's slots.
create or replace function fencepost._topic_of(queue text, consumer text) returns text
language sql immutable
as $$ select case when consumer is null then fencepost._messages_topic(queue) else fencepost._slots_topic(queue, consumer) end $$;

-- The last position that was taken in a queue, with what else sleepers want to hear of. Never quiet: what was appended just before may
-- be what the sleeper wants.
create or replace function fencepost._messages_mark(queue text, out mark bigint, out quiet boolean)
language plpgsql volatile
as $$
declare
    q fencepost.queue;
begin
    quiet := false;
    select * into q from fencepost.queue x where x.name = queue;
    if q.id is not null then
        mark := fencepost._appended(q.id) + q.changes * 1000000000000;
    end if;
end
$$;

-- The sum of the epochs of free slots and of a number for each member: it rises when a slot becomes free or somebody joins. Quiet while
-- no slot is free.
create or replace function fencepost._slots_mark(topic text, out mark bigint, out quiet boolean)
language plpgsql stable
as $$
declare
    many integer := split_part(topic, '/', 2)::integer;
    names text := substr(topic, 8 + length(many::text));
    found_id integer := (
        select c.id from fencepost.queue q join fencepost.consumer c on c.queue_id = q.id
        where q.name = left(names, many) and c.name = substr(names, many + 2));
begin
    select coalesce(sum(coalesce(s.epoch, 1)), 0), count(*) = 0 into mark, quiet
        from fencepost.slot s where s.consumer_id = found_id and s.worker is null;
    mark := mark + coalesce((select sum(abs(hashtext(m.member)::bigint)) from fencepost.member m where m.consumer_id = found_id), 0);
end
$$;
