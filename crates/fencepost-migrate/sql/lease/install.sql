-- Makes the table of leases of migrations.
-- No rows. Takes the lock of a new table. A row a lease: free where expires_at is null, held until then otherwise. Rows stay for ever, since
-- an epoch that was granted is never granted again.
create table if not exists {lease} (
    name text primary key,
    epoch bigint not null default 0,
    holder text,
    nonce text,
    since timestamptz,
    expires_at timestamptz
)
