-- Writes down what was changed by hand, with the row as it was before. Returns nothing. Locks: none that anybody waits for.
insert into {history} (format, action, number, reason, before, role, runner, at, tool)
values (
    $1, $2, $3, $4,
    (select pg_catalog.row_to_json(l)::text from {ledger} l where l.number = $3),
    current_user, $5, pg_catalog.clock_timestamp(), $6
)
