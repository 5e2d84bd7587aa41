-- Loaded before the functions beside it, which read it.
-- How schedules stand, for who may consume the queues that they send to: what they send will be read there. Of those whose queue is gone, for
-- who may consume any queue. The table is read with the owner's rights; which rows, by those of who asks.
create or replace view fencepost._schedule_state with (security_barrier) as
select s.* from fencepost.schedule s left join fencepost.queue q on q.name = s.queue where fencepost._may_consume(q.id);

-- What those schedules have fired.
create or replace view fencepost._fired_state with (security_barrier) as
select s.name as schedule, f.* from fencepost.fired f join fencepost._schedule_state s on s.id = f.schedule_id;
