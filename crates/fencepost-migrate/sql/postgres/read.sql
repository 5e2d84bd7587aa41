-- The whole ledger with the form that its history tells; at least one row, with a null number when no migration is in it.
-- $1: the ledger's quoted name. found_in: the schema in which that is. Locks: none but ACCESS SHARE on the two tables.
select
    (select pg_catalog.max(h.format) from {history} h) as format,
    (select n.nspname::text from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
        where c.oid = pg_catalog.to_regclass($1)) as found_in,
    pg_catalog.current_schema()::text as current,
    l.number, l.name, l.state, l.text_hash, l.layout_hash, l.token_hash, l.statements, l.done, l.done_hash,
    l.failed_statement, l.sqlstate, l.message, l.role, l.runner,
    (extract(epoch from l.started_at) * 1000000)::bigint as started_at,
    (extract(epoch from l.finished_at) * 1000000)::bigint as finished_at,
    l.milliseconds, l.tool
from (select 1) as always left join {ledger} l on true
order by l.number
