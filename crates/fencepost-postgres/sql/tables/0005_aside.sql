-- What makes a slot find what it set aside without a walk over what is over, which nobody can remove while somebody holds an old snapshot.

-- The batch by which a message got its place; none of one that is due or parked. One set aside before this version counts for any.
alter table fencepost.aside add column batch bigint;
update fencepost.aside set batch = 9223372036854775807 where place not in ('due', 'parked');

drop index fencepost.aside_by_place;
-- By an expression, so that no plan takes the primary key, which begins with the consumer, and walks over all there is.
create index aside_by_due on fencepost.aside ((consumer_id::bigint * 256 + partition), due_at, position) where place = 'due';
create index aside_by_batch on fencepost.aside ((consumer_id::bigint * 256 + partition), batch) where place not in ('due', 'parked');

-- How many messages a slot has set aside; and no one of them is due before `due_from`, or got its place by a batch before `batch_from`.
alter table fencepost.state_0 add column aside integer not null default 0, add column due_from timestamptz, add column batch_from bigint;
alter table fencepost.state_1 add column aside integer not null default 0, add column due_from timestamptz, add column batch_from bigint;

-- Only a slot's newest version counts, so all may tell what is true now.
update fencepost.state_0 s set aside = a.count from (
    select c.id, a.partition % c.slots as slot, count(*) from fencepost.aside a join fencepost.consumer c on c.id = a.consumer_id group by 1, 2
) a where a.id = s.consumer_id and a.slot = s.slot;
update fencepost.state_1 s set aside = a.count from (
    select c.id, a.partition % c.slots as slot, count(*) from fencepost.aside a join fencepost.consumer c on c.id = a.consumer_id group by 1, 2
) a where a.id = s.consumer_id and a.slot = s.slot;
