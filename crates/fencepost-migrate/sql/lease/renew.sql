-- Moves the end of a grant.
-- $1 name, $2 epoch, $3 milliseconds.
-- One row while the lease is this epoch's, also past its end as long as nobody took it. Locks the row, beside guards. No row is the only loss.
update {lease}
set expires_at = clock_timestamp() + make_interval(secs => $3::bigint / 1000.0)
where name = $1 and epoch = $2 and expires_at is not null
returning true as is_held
