-- Gives a lease back.
-- $1 name, $2 epoch.
-- One row when it was this epoch's. Locks the row, beside guards: a takeover waits for the end of those.
update {lease}
set expires_at = null, nonce = null
where name = $1 and epoch = $2 and expires_at is not null
returning true as was_held
