-- The ledger of refinery: number, name. It records what succeeded, with a checksum of its own that we cannot make.
-- Locks: none but the file's read lock.
select version, name, true, null from main.refinery_schema_history order by version
