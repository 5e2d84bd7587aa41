-- A consumer with what calls need of its queue, or the error `not_found`.
create or replace function fencepost._consumer(queue text, consumer text) returns fencepost.target
language plpgsql stable
as $$
declare
    target fencepost.target;
begin
    select c.id, c.name, q.id, q.name, q.partitions, q.paused, c.slots, c.on_failure, c.max_attempts, c.max_crashes, c.backoff, c.after_id
        into target
        from fencepost.queue q join fencepost.consumer c on c.queue_id = q.id
        where q.name = _consumer.queue and c.name = _consumer.consumer;
    if target.id is null then
        perform fencepost._queue(queue);
        perform fencepost._name('a consumer name', consumer);
        perform fencepost._refuse('not_found', format('cannot find the consumer `%s` of the queue `%s`', consumer, queue),
            jsonb_build_object('consumer', queue || '/' || consumer),
            'it may have been dropped; fencepost.create_consumer makes one');
    end if;
    return target;
end
$$;

-- Refuses a slot that the consumer does not have.
create or replace function fencepost._slot_of(target fencepost.target, slot integer) returns smallint
language plpgsql immutable
as $$
begin
    perform fencepost._within('a slot', slot, 0, 255);
    if slot >= (target).slots then
        perform fencepost._refuse('not_found', format('cannot find slot `%s` of the consumer `%s/%s`', slot, (target).queue, (target).name),
            jsonb_build_object('consumer', (target).queue || '/' || (target).name, 'slot', slot),
            format('its slots are 0 to %s', (target).slots - 1));
    end if;
    return slot;
end
$$;
