-- Whether this session holds the advisory lock with the key $1. One row. Takes no lock.
select exists (
    select from pg_catalog.pg_locks l
    where l.locktype = 'advisory' and l.pid = pg_catalog.pg_backend_pid() and l.granted and l.objsubid = 1
        and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = pg_catalog.current_database())
        and (l.classid::bigint << 32) | l.objid::bigint = $1
) as is_held
