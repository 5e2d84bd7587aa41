-- Who holds the lock, and what it does.
-- $1 key of the lock.
-- At most one row. Takes no lock. What a role may not see of others is null.
-- Its progress is a text that changes whenever the holder has begun or ended something, or has got on with an index.
select held.pid,
       seen.usename::text as user_name,
       nullif(seen.application_name, '') as application,
       host(seen.client_addr) as client_address,
       (extract(epoch from seen.backend_start) * 1000000)::bigint as connected_at,
       (extract(epoch from
           substring(seen.application_name from ' since (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)$')::timestamptz
       ) * 1000000)::bigint as since,
       seen.state,
       seen.query,
       (extract(epoch from seen.query_start) * 1000000)::bigint as query_at,
       seen.wait_event_type,
       seen.wait_event,
       pg_blocking_pids(held.pid) as blocked_by,
       concat_ws(' ', held.pid, seen.backend_start, seen.query_start, seen.state_change, built.phase, built.lockers_done,
           built.blocks_done, built.tuples_done, built.partitions_done) as progress
from pg_locks as held
left join pg_stat_activity as seen on seen.pid = held.pid
left join pg_stat_progress_create_index as built on built.pid = held.pid
where held.locktype = 'advisory' and held.granted and held.objsubid = 1
  and held.database = (select oid from pg_database where datname = current_database())
  and (held.classid::bigint << 32) | held.objid::bigint = $1
limit 1
