-- What is to be known of a session before its lock is trusted, and after every wait for it.
-- $1 key of the lock.
-- One row: the session's process, whether the server follows another one, whether the session holds the lock, the server's deadlock_timeout in
-- milliseconds. Takes no lock. A session holds a lock exactly when this says so: a wait that was cut short may have been granted
-- in the same instant.
select pg_backend_pid() as pid,
       pg_is_in_recovery() as in_recovery,
       exists (
           select from pg_locks
           where locktype = 'advisory' and pid = pg_backend_pid() and granted and objsubid = 1
             and database = (select oid from pg_database where datname = current_database())
             and (classid::bigint << 32) | objid::bigint = $1
       ) as is_held,
       (select setting::bigint from pg_settings where name = 'deadlock_timeout') as deadlock_timeout_ms
