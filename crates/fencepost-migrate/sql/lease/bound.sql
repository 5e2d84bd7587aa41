-- Has the server end a guarded transaction that idles for longer than the grant lasts, at least a second, at most the session's own bound.
-- $1 name, $2 epoch.
-- At most one row. Takes no lock. The setting ends with the transaction.
select set_config('idle_in_transaction_session_timeout', least(own.bound, granted.bound)::text, true)
from (
    select greatest(1000, (extract(epoch from expires_at - clock_timestamp()) * 1000)::bigint) as bound
    from {lease} where name = $1 and epoch = $2
) as granted, (
    select nullif(setting::bigint, 0) as bound from pg_settings where name = 'idle_in_transaction_session_timeout'
) as own
