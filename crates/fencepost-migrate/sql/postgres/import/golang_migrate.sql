-- The ledger of golang-migrate: the last number, no name, whether it is clean. Locks: none but ACCESS SHARE.
select version::bigint, null::text, not dirty, null::bytea from schema_migrations
