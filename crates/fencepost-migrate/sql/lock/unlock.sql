-- Gives the lock back.
-- $1 key of the lock.
-- One row: true when the session had it. Anything else says that it is not the session that took it.
select pg_advisory_unlock($1) as was_held
