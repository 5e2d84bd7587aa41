-- Grants a lease that is free or has expired, or repeats the grant of this very call.
-- $1 name, $2 holder, $3 nonce, $4 milliseconds.
-- One row with the epoch, or none when somebody holds it. The row is locked already. Epochs rise with the clock too, so that they do after a
-- restore of an old backup.
update {lease} as lease
set epoch = case when lease.nonce = $3 and lease.expires_at > clock_timestamp() then lease.epoch
                 else greatest(lease.epoch + 1, (extract(epoch from clock_timestamp()) * 1000000)::bigint) end,
    since = case when lease.nonce = $3 and lease.expires_at > clock_timestamp() then lease.since
                 else clock_timestamp() end,
    holder = $2,
    nonce = $3,
    expires_at = clock_timestamp() + make_interval(secs => $4::bigint / 1000.0)
where name = $1
  and (expires_at is null or expires_at <= clock_timestamp() or nonce = $3)
returning epoch
