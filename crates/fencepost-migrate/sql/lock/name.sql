-- Shows what the session holds to everybody who looks at the server's activity.
-- $1 what is held, short enough.
-- One row. Takes no lock. The time is the server's.
select set_config(
    'application_name',
    'migrate ' || $1 || ' since ' || to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
    false
)
