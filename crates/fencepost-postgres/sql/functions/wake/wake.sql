-- Wakes who sleeps on a topic, once the transaction commits. Nothing is sent unless somebody sleeps.
create or replace function fencepost._wake(topic text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return;
end
$$;
