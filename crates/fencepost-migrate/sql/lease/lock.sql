-- Locks the row of a lease, for a takeover.
-- $1 name.
-- One row, or none while somebody's guarded transaction has it: it is never waited for. Takes the row FOR UPDATE. State is read by a later
-- statement, which sees what was committed before the lock was granted.
select from {lease} where name = $1 for update skip locked
