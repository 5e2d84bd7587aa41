-- Says that one more statement of a file without a transaction is done. Returns the number, or nothing when the row is not this
-- runner's any more. Locks: the row. Invariant: only who began the file moves it on.
update {ledger} as l set
    done = $2,
    done_hash = $3,
    state = $4,
    finished_at = case when $4 = 'applied' then pg_catalog.clock_timestamp() end,
    milliseconds = case when $4 = 'applied' then $5 end
where l.number = $1 and l.state = 'running' and l.runner = $6
returning l.number
