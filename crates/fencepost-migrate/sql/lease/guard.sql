-- Binds the caller's transaction to a grant.
-- $1 name, $2 epoch.
-- One row while the lease is this epoch's, none otherwise. Takes the row FOR KEY SHARE until the end of the transaction: no takeover can lock it
-- until then, a renewal can. It asks for the epoch, not the end.
select epoch from {lease} where name = $1 and epoch = $2 and expires_at is not null for key share
