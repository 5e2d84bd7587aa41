-- Takes a row away: its migration counts as never run. Returns its number. Locks: the file's write lock.
-- Invariant: the caller writes the history in the same transaction.
delete from {ledger} where number = :number returning number
