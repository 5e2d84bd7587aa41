-- The engine's clock, and nothing else decides about time: never now(), which is when the transaction began, never a client's time.
-- Tests put their own in its place.
create or replace function fencepost._clock() returns timestamptz
language sql volatile parallel restricted
as $$ select pg_catalog.clock_timestamp() $$;
