-- Sleeping and waking, by topics of what the caller may consume or hold. Of other topics nothing is told.

-- What a topic is about, with the call of the function that the caller was granted for it, whose first argument is the consumer; NULL
-- where there is none.
create or replace function fencepost._by_topic(topic text, call text, out statement text, out named text)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    many integer;
    number integer;
begin
    case split_part(topic, '/', 1)
        when 'lease' then
            if fencepost._prefix_function(substr(topic, 7)) is not null then
                named := substr(topic, 7);
                statement := fencepost._by_prefix(named, call, '$1');
            end if;
            return;
        when 'messages' then
            number := fencepost._found_number(substr(topic, 10));
        when 'slots' then
            many := split_part(topic, '/', 2)::integer;
            topic := substr(topic, 8 + length(many::text));
            number := fencepost._found_number(left(topic, many));
            named := substr(topic, many + 2);
        else
            return;
    end case;
    if fencepost._may('fencepost.q' || number || '_consume') then
        statement := fencepost._by_number(number, call, 'consumer => $1');
    end if;
end
$$;

create or replace function fencepost._sleep(topics text[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    way record;
begin
    if has_function_privilege('fencepost._any_sleep'::regproc, 'execute') then
        perform fencepost._any_sleep(topics);
        return;
    end if;
    for way in select w.statement, w.named from unnest(topics) t cross join lateral fencepost._by_topic(t, 'sleep') w where w.statement is not null loop
        execute way.statement using way.named;
    end loop;
end
$$;

create or replace function fencepost._marks(topics text[])
returns table (hash bigint, mark bigint, quiet boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    way record;
begin
    if has_function_privilege('fencepost._any_marks'::regproc, 'execute') then
        return query select * from fencepost._any_marks(topics);
        return;
    end if;
    for way in
        select t.topic, w.statement, w.named from unnest(topics) with ordinality t (topic, place)
        cross join lateral fencepost._by_topic(t.topic, 'mark') w order by t.place
    loop
        hash := fencepost._topic_hash(way.topic);
        mark := null;
        quiet := true;
        if way.statement is not null then
            execute way.statement into mark, quiet using way.named;
        end if;
        return next;
    end loop;
end
$$;
