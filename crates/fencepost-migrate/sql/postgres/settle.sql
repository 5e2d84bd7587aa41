-- Sets what a statement of a migration is run with. $3: for the transaction alone, or else for the session. Returns the server's process.
-- Locks: none. Invariant: no timeout that was set for the application ends a migration, and strings end where our lexer says.
select
    pg_catalog.pg_backend_pid(),
    pg_catalog.set_config('lock_timeout', $1, $3),
    pg_catalog.set_config('statement_timeout', $2, $3),
    pg_catalog.set_config('idle_in_transaction_session_timeout', '0', $3),
    pg_catalog.set_config('standard_conforming_strings', 'on', $3),
    case
        when pg_catalog.current_setting('transaction_timeout', true) is not null
            then pg_catalog.set_config('transaction_timeout', '0', $3)
    end
