-- Says that one more statement of a file without a transaction is done. Returns the number, or nothing when the row is not this
-- runner's any more. Locks: the file's write lock. Invariant: only who began the file moves it on.
update {ledger} set
    done = :done,
    done_hash = :done_hash,
    state = :state,
    finished_at = case when :state = 'applied' then cast(unixepoch('subsec') * 1000000 as integer) end,
    milliseconds = case when :state = 'applied' then :milliseconds end
where number = :number and state = 'running' and runner = :runner
returning number
