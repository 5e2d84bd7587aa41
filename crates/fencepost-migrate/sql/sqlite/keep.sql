-- Makes a row a baseline as it is: its file is not missed any more. Returns its number. Locks: the file's write lock.
-- Invariant: the caller writes the history in the same transaction.
update {ledger} set state = 'baselined', done = statements, failed_statement = null, sqlstate = null, message = null
where number = :number
returning number
