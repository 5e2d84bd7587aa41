-- How settings of the session stand. $1: their names. Returns name, value and the server's process, in the order of $1, without those that the server has not.
-- Locks: none.
select s.name, pg_catalog.current_setting(s.name, true), pg_catalog.pg_backend_pid()
from pg_catalog.unnest($1) with ordinality as s (name, place)
where pg_catalog.current_setting(s.name, true) is not null
order by s.place
