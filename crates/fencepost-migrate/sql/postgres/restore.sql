-- Gives settings the values $2 that they had, where they have others. $1: their names; $3: for the transaction alone, or else for the
-- session. Locks: none. Invariant: what a migration sets for itself reaches neither our own statements nor the next file.
select pg_catalog.set_config(s.name, s.value, $3)
from rows from (pg_catalog.unnest($1), pg_catalog.unnest($2)) with ordinality as s (name, value, place)
where pg_catalog.current_setting(s.name, true) is distinct from s.value
