-- Which of the server's processes answers.
-- One row. Takes no lock.
select pg_backend_pid() as pid
