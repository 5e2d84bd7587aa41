-- Whether the session is in no transaction.
-- One row: true when the transaction began with this very statement. Takes no lock. To be sent as one message of its own.
select now() = statement_timestamp()
