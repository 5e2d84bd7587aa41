-- Makes the row of a lease.
-- $1 name.
-- No rows. Locks the row that it makes.
insert into {lease} (name) values ($1) on conflict (name) do nothing
