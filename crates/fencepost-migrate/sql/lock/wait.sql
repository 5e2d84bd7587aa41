-- Waits for the lock, for as long as the session was told.
-- No rows. Takes the lock for the session, or does not; which of both, only the list of locks tells.
-- The wait has an end that comes before the server looks for deadlocks, and with it ends the snapshot that it holds: who builds an index
-- concurrently waits for all older snapshots, also those of who waits for him. An end that is caught here is no error in the server's log.
do $$
begin
    perform set_config('lock_timeout', current_setting('fencepost.lock_wait'), true);
    perform pg_advisory_lock(current_setting('fencepost.lock_key')::bigint);
exception
    when lock_not_available then null;
end
$$
