-- Refuses bad arguments before anything is read. Each returns its value, so that it can be used in place.

-- A name that people choose: 1 to 255 bytes, not blank, without control characters. `what` is the argument as messages name it.
create or replace function fencepost._name(what text, value text) returns text
language plpgsql immutable
as $$
declare
    why text := case
        when value is null then 'it is NULL'
        when value = '' then 'it is empty'
        when octet_length(value) > 255 then format('it has %s bytes', octet_length(value))
        when value ~ '[\u0001-\u001f\u007f-\u009f]' then 'it holds a control character'
        when value ~ '^\s*$' then 'it is blank'
    end;
begin
    if why is not null then
        perform fencepost._refuse('invalid_input',
            format('cannot use `%s` as %s: %s', left(regexp_replace(value, '[\u0001-\u001f\u007f-\u009f]', '?', 'g'), 40), what, why),
            jsonb_build_object('argument', what),
            'allowed are 1 to 255 bytes of UTF-8, not blank, without control characters');
    end if;
    return value;
end
$$;

-- Whether names are so plain that nothing else has to be checked: part of the expression that asks, as the check is not. The second and the
-- third may be left out.
create or replace function fencepost._are_plain(name text, second text default 'none', third text default null) returns boolean
language sql immutable
as $$
    select coalesce(octet_length(name) <= 255 and name ~ '^[[:graph:]]+$' and octet_length(second) <= 255 and second ~ '^[[:graph:]]+$'
        and (third is null or octet_length(third) <= 255 and third ~ '^[[:graph:]]+$'), false)
$$;

-- A whole number within a range.
create or replace function fencepost._within(what text, value bigint, lowest bigint, highest bigint) returns bigint
language plpgsql immutable
as $$
begin
    if value is null or value < lowest or value > highest then
        perform fencepost._refuse('invalid_input',
            format('cannot use `%s` as %s', coalesce(value::text, 'NULL'), what),
            jsonb_build_object('argument', what),
            format('allowed are %s to %s', lowest, highest));
    end if;
    return value;
end
$$;

-- A length of time within a range, in whole microseconds.
create or replace function fencepost._time(what text, value interval, lowest interval, highest interval) returns interval
language plpgsql immutable
as $$
begin
    if value is null or value < lowest or value > highest then
        perform fencepost._refuse('invalid_input',
            format('cannot use `%s` as %s', coalesce(value::text, 'NULL'), what),
            jsonb_build_object('argument', what),
            format('allowed are %s to %s', lowest, highest));
    end if;
    -- Months and days become hours: a TTL is a number of microseconds, whatever the calendar says.
    return (extract(epoch from value) * 1000000)::bigint * interval '1 microsecond';
end
$$;

-- A length of time as messages show it, such as `1s 500ms`.
create or replace function fencepost._span(value interval) returns text
language sql immutable
as $$
    select coalesce(string_agg(n || unit, ' ' order by place), '0s') from (
        select * from (select (extract(epoch from value) * 1000000)::bigint as micros) m cross join lateral (values
            (1, micros / 86400000000, case micros / 86400000000 when 1 then 'day' else 'days' end),
            (2, micros / 3600000000 % 24, 'h'), (3, micros / 60000000 % 60, 'm'), (4, micros / 1000000 % 60, 's'),
            (5, micros / 1000 % 1000, 'ms'), (6, micros % 1000, 'us')) v (place, n, unit)
        where n > 0) parts
$$;

-- The TTL of a grant: 100 ms to 24 h.
create or replace function fencepost._ttl(value interval) returns interval
language sql immutable
as $$ select fencepost._time('ttl', value, interval '100 milliseconds', interval '24 hours') $$;

-- An epoch that a caller presents.
create or replace function fencepost._presented(value bigint) returns bigint
language sql immutable
as $$ select fencepost._within('epoch', value, 1, 9007199254740991) $$;

-- Refuses callers whose statements all see one old snapshot: a transition has to read the newest state after it took its lock.
create or replace function fencepost._read_committed(operation text) returns void
language plpgsql stable
as $$
begin
    if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
        perform fencepost._refuse('unsupported',
            format('cannot %s in a transaction at %s: it would judge by what was true when the transaction began',
                operation, upper(current_setting('transaction_isolation'))),
            jsonb_build_object('isolation', current_setting('transaction_isolation')),
            'call it at READ COMMITTED, in a transaction of its own or one begun with BEGIN ISOLATION LEVEL READ COMMITTED');
    end if;
end
$$;
