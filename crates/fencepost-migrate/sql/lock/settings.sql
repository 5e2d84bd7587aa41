-- Changes settings of the session, those of them that this server has.
-- $1 names, $2 values.
-- A row a setting: its name and its value before. Takes no lock. What was changed is known, so that it can be changed back.
select was.name, was.setting, set_config(was.name, wanted.value, false) as is_now
from unnest($1, $2) as wanted (name, value)
join pg_settings as was on was.name = wanted.name
