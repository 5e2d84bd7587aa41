-- Writes a row by hand, whatever was there: a baseline, an import, a repair. Returns its number.
-- Locks: the row. Invariant: the caller writes the history in the same transaction.
insert into {ledger} as l (
    number, name, state, text_hash, layout_hash, token_hash, statements, done, done_hash, role, runner, started_at,
    finished_at, milliseconds, tool
)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, current_user, $10, pg_catalog.clock_timestamp(), pg_catalog.clock_timestamp(), 0, $11)
on conflict (number) do update set
    name = excluded.name,
    state = excluded.state,
    text_hash = excluded.text_hash,
    layout_hash = excluded.layout_hash,
    token_hash = excluded.token_hash,
    statements = excluded.statements,
    done = excluded.done,
    done_hash = excluded.done_hash,
    failed_statement = case when excluded.state = 'failed' then l.failed_statement end,
    sqlstate = case when excluded.state = 'failed' then l.sqlstate end,
    message = case when excluded.state = 'failed' then l.message end,
    tool = excluded.tool
returning l.number
