-- Lets one at a time make the table.
-- $1 a number.
-- One row. Takes an advisory lock until the end of the transaction, so that it works through any pooler.
select pg_advisory_xact_lock($1)
