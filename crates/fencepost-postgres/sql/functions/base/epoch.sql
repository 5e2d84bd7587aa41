-- The engine's clock in microseconds since 1970.
create or replace function fencepost._clock_micros() returns bigint
language sql volatile
as $$ select (pg_catalog.date_part('epoch', fencepost._clock()) * 1000000)::pg_catalog.int8 $$;

-- The epoch of the next grant: above every earlier one of the store, above `floor`, and not below the clock.
-- It comes from the sequence alone, so it never repeats and no grant waits for another one's commit. When the sequence lags behind the
-- clock it is set to the end of the next second, by at most one session a second: who gets that second's lock. The others see it
-- at once, since a sequence is not part of a transaction.
-- Grants have to be durable before they are answered, whatever the caller's setting.
create or replace function fencepost._epoch(floor bigint) returns bigint
language plpgsql
as $$
declare
    least_epoch bigint;
    next_epoch bigint;
    ahead bigint;
begin
    perform fencepost._durable();
    loop
        least_epoch := greatest(fencepost._clock_micros(), coalesce(floor, 0) + 1);
        next_epoch := nextval('fencepost.epoch');
        if next_epoch >= least_epoch then
            return next_epoch;
        end if;
        -- INVARIANT: the value depends on the second alone, so two sessions never set two values that are close to each other.
        ahead := (least_epoch / 1000000 + 2) * 1000000;
        if pg_try_advisory_xact_lock(hashtextextended('fencepost.epoch', ahead)) then
            -- One statement, so that nobody sets it back who was held up after the comparison.
            perform setval('fencepost.epoch', ahead) from fencepost.epoch where last_value < ahead;
        else
            perform pg_sleep(0.0005);
        end if;
    end loop;
end
$$;

-- Makes the transaction durable before it is answered, whatever the caller's setting.
create or replace function fencepost._durable() returns void
language plpgsql
as $$
begin
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'local', true);
    end if;
end
$$;
