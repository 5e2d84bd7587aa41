-- Where the table of leases is.
-- $1 a schema, or null for the one in which the session makes tables.
-- One row: the schema, and whether the table is there. Takes no lock.
select place.schema_name,
       to_regclass(format('%I.fencepost_migration_lease', place.schema_name)) is not null as is_there
from (select coalesce($1, current_schema()::text) as schema_name) as place
