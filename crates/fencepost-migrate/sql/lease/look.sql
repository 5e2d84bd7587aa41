-- Who holds a lease.
-- $1 name.
-- At most one row, none for a lease that was never asked for; is_live while nobody else is granted it. Takes no lock, and decides nothing but
-- that it is not worth asking.
select epoch, holder, nonce,
       (extract(epoch from since) * 1000000)::bigint as since,
       (extract(epoch from expires_at) * 1000000)::bigint as expires_at,
       coalesce(expires_at > clock_timestamp(), false) as is_live
from {lease}
where name = $1
