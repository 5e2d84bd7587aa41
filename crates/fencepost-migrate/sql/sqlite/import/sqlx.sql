-- The ledger of sqlx: number, name, whether it succeeded, SHA-384 of the file. Locks: none but the file's read lock.
select version, description, success, checksum from main._sqlx_migrations order by version
