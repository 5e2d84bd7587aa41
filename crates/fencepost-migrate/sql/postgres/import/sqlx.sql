-- The ledger of sqlx: number, name, whether it succeeded, SHA-384 of the file. Locks: none but ACCESS SHARE.
select version::bigint, description::text, success, checksum from _sqlx_migrations order by version
