-- The server and timeline that the store lives on now, as an id of fencepost.generation. The timeline is that of the WAL file being
-- written, since the control file still shows the old one right after a promotion.
-- A new one is recorded, and the counter of epochs jumps: the lost timeline may have granted a little more than this one knows.
-- Locks: none; the first caller under a new generation writes one row, and others who come at that moment wait for its commit.
create or replace function fencepost._generation() returns integer
language plpgsql
as $$
declare
    current_name text;
    known integer;
begin
    if pg_is_in_recovery() then
        perform fencepost._refuse('read_only', 'cannot judge by a server in recovery: it follows another one',
            '{}', 'connect to the primary; with several hosts in the url the one that takes writes is found');
    end if;
    current_name := (pg_control_system()).system_identifier::text || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8);
    known := (select id from fencepost.generation where name = current_name);
    if known is not null then
        return known;
    end if;
    insert into fencepost.generation (name, seen_at) values (current_name, fencepost._clock())
        on conflict (name) do nothing;
    -- By one of those who come first: who sets it later than the others would set it back under what they were granted.
    if found and (select count(*) from fencepost.generation) > 1 then
        -- INVARIANT: epochs run ahead of the clock by less than 3 s, so a minute is beyond whatever was granted and lost.
        perform setval('fencepost.epoch', greatest(e.last_value, fencepost._clock_micros() + 60000000)) from fencepost.epoch e;
    end if;
    return (select id from fencepost.generation where name = current_name);
end
$$;
