-- Takes a row away: its migration counts as never run. Returns its number. Locks: the row.
-- Invariant: the caller writes the history in the same transaction.
delete from {ledger} as l where l.number = $1 returning l.number
