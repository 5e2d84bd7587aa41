-- The ledger of refinery: number, name. It records what succeeded, with a checksum of its own that we cannot make.
-- Locks: none but ACCESS SHARE.
select version::bigint, name::text, true, null::bytea from refinery_schema_history order by version
