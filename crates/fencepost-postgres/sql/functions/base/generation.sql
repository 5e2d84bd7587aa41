-- The server, timeline and database that the store lives in now, as an id of fencepost.generation. The timeline is that of the WAL file
-- being written, since the control file still shows the old one right after a promotion.
-- What was granted under another one is void. A row that was not written here came with a copy and does not count, see tables/0004_home.sql.
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
    current_name := (pg_control_system()).system_identifier::text || '/' || fencepost._timeline();
    known := (select id from fencepost.generation where name = current_name and database = fencepost._database() and xmin = written);
    if known is not null then
        return known;
    end if;
    return fencepost._begin_generation(current_name);
end
$$;

create or replace function fencepost._timeline() returns text
language sql volatile
as $$ select pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8) $$;

-- The number of the database, which stands in the names of its files.
create or replace function fencepost._database() returns text
language sql volatile
as $$ select pg_catalog.split_part(pg_catalog.pg_relation_filepath('fencepost.generation'), '/', -2) $$;
