-- Makes a row a baseline as it is: its file is not missed any more. Returns its number. Locks: the row.
-- Invariant: the caller writes the history in the same transaction.
update {ledger} as l set state = 'baselined', done = l.statements, failed_statement = null, sqlstate = null, message = null
where l.number = $1
returning l.number
