-- The whole ledger with the form that its history tells; at least one row, with a null number when no migration is in it.
-- Locks: none but the file's read lock.
select
    (select max(h.format) from {history} h) as format,
    l.number, l.name, l.state, l.text_hash, l.layout_hash, l.token_hash, l.statements, l.done, l.done_hash,
    l.failed_statement, l.sqlstate, l.message, l.role, l.runner, l.started_at, l.finished_at, l.milliseconds, l.tool
from (select 1) as always left join {ledger} l on true
order by l.number
