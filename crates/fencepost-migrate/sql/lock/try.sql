-- Takes the lock for the session if nobody holds it.
-- $1 key of the lock.
-- One row: whether it was taken. The lock outlives the transaction. It is never taken by a session that has it.
select pg_try_advisory_lock($1) as is_taken
