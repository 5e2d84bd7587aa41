-- The function by which those who were granted one queue call what consumers call, and nothing on any other queue: {q}_consume(call, ...),
-- with the calls and columns of fencepost._consumer_calls. The queue's name is looked up here, and no argument.
create or replace function fencepost._consume_function(log text, queue_id integer) returns text
language sql immutable
as $make$
select replace(replace($text$
create function {q}_consume(
    call text, consumer text default null, slot integer default null, epoch bigint default null, batch_id bigint default null,
    message_id bigint default null, span interval default null, word text default null, nonce text default null,
    slots integer[] default null, epochs bigint[] default null
) returns setof record
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set max_parallel_workers_per_gather = 0
set plan_cache_mode = force_generic_plan
as $body$
declare
    own text := (select q.name from fencepost.queue q where q.id = {id});
    statement text := fencepost._statement_of((select c.statement from fencepost._consumer_calls() c where c.call = q{id}_consume.call), call);
begin
    -- INVARIANT: to what is called no name means every queue. An old snapshot, or one from after a drop, does not show this one.
    if own is null then
        perform fencepost._refuse('not_found', 'cannot find the queue of this function', '{}', 'call it in a new transaction');
    end if;
    return query execute statement using own, consumer, slot, epoch, batch_id, message_id,
        span, word, nonce, slots, epochs;
end
$body$
$text$, '{q}', log), '{id}', queue_id::text)
$make$;
