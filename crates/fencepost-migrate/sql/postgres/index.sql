-- The index $2 of the table $1, both as they are written in a statement: its quoted path, whether it is valid, who builds it just now.
-- Locks: none but ACCESS SHARE on the catalog.
select
    pg_catalog.format('%I.%I', n.nspname, c.relname) as path,
    i.indisvalid as is_valid,
    (select p.pid from pg_catalog.pg_stat_progress_create_index p where p.index_relid = c.oid limit 1) as built_by
from pg_catalog.pg_index i
join pg_catalog.pg_class c on c.oid = i.indexrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where i.indrelid = pg_catalog.to_regclass($1)
    and c.relname = ((pg_catalog.parse_ident($2))[1])::name
