-- Writes what became of a migration that was run. Returns its number, or nothing when it is done already.
-- Locks: the file's write lock. Invariant: what is done is never written over.
insert into {ledger} as l (
    number, name, state, text_hash, layout_hash, token_hash, statements, done, done_hash, failed_statement, sqlstate,
    message, role, runner, started_at, finished_at, milliseconds, tool
)
values (
    :number, :name, :state, :text_hash, :layout_hash, :token_hash, :statements, :done, :done_hash, :failed_statement,
    :sqlstate, :message, :role, :runner,
    cast(unixepoch('subsec') * 1000000 as integer) - :milliseconds * 1000,
    case when :state <> 'running' then cast(unixepoch('subsec') * 1000000 as integer) end,
    case when :state <> 'running' then :milliseconds end,
    :tool
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
where l.state in ('running', 'failed') or :by_hand
returning number
