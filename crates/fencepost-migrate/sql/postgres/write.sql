-- Writes what became of a migration that was run. Returns its number, or nothing when it is done already.
-- Locks: the row. Invariant: what is done is never written over, so a runner that lost its lock records nothing twice.
insert into {ledger} as l (
    number, name, state, text_hash, layout_hash, token_hash, statements, done, done_hash, failed_statement, sqlstate,
    message, role, runner, started_at, finished_at, milliseconds, tool
)
values (
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, current_user, $13,
    pg_catalog.clock_timestamp() - $14 * interval '1 millisecond',
    case when $3 <> 'running' then pg_catalog.clock_timestamp() end,
    case when $3 <> 'running' then $14 end,
    $15
)
on conflict (number) do update set
    name = excluded.name,
    state = excluded.state,
    text_hash = excluded.text_hash,
    layout_hash = excluded.layout_hash,
    token_hash = excluded.token_hash,
    statements = excluded.statements,
    done = excluded.done,
    done_hash = excluded.done_hash,
    failed_statement = excluded.failed_statement,
    sqlstate = excluded.sqlstate,
    message = excluded.message,
    role = excluded.role,
    runner = excluded.runner,
    started_at = excluded.started_at,
    finished_at = excluded.finished_at,
    milliseconds = excluded.milliseconds,
    tool = excluded.tool
where l.state in ('running', 'failed')
returning l.number
