-- Writes down what was changed by hand, with the row as it was before. Returns nothing. Locks: the file's write lock.
insert into {history} (format, action, number, reason, before, role, runner, at, tool)
values (
    :format, :action, :number, :reason,
    (select json_object('name', l.name, 'state', l.state, 'text_hash', l.text_hash, 'statements', l.statements,
        'done', l.done, 'failed_statement', l.failed_statement, 'sqlstate', l.sqlstate, 'message', l.message,
        'runner', l.runner, 'started_at', l.started_at, 'finished_at', l.finished_at)
        from {ledger} l where l.number = :number),
    :role, :runner, cast(unixepoch('subsec') * 1000000 as integer), :tool
)
