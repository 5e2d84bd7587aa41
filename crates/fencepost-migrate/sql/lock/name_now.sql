-- What the session is called before the lock renames it.
-- One row. Takes no lock.
select current_setting('application_name') as name
