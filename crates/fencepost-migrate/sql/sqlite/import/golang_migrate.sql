-- The ledger of golang-migrate: the last number, no name, whether it is clean. Locks: none but the file's read lock.
select version, null, not dirty, null from main.schema_migrations
