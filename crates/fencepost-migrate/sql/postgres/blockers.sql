-- Whom process $1 of the server waits for, one row each. Locks: none but those of the server's lock table, for a moment.
select
    a.pid,
    coalesce(a.usename::text, '') as role,
    coalesce(a.application_name, '') as application,
    coalesce(a.state, 'unknown') as state,
    coalesce(a.query, '') as query,
    coalesce((extract(epoch from pg_catalog.clock_timestamp() - a.xact_start) * 1000)::bigint, 0) as open_for
from pg_catalog.pg_stat_activity a
where a.pid = any (pg_catalog.pg_blocking_pids($1))
order by a.xact_start
