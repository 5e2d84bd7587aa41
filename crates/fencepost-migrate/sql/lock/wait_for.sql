-- Says what the next wait is for, to the session alone.
-- $1 key of the lock as text, $2 milliseconds as text.
-- One row. Takes no lock. The wait itself is a block, which has no parameters.
select set_config('fencepost.lock_key', $1, false), set_config('fencepost.lock_wait', $2, false)
