-- The roles of the cluster: fencepost_producer, fencepost_consumer, fencepost_admin. They are not of this database alone, so an
-- installation makes them only where it may, and goes on without them.

-- Makes the roles that are missing, if the caller may make roles.
-- RACE: an installation into another database of the cluster may make the same one: then it is there.
create or replace function fencepost._make_roles() returns void
language plpgsql
as $$
declare
    missing text;
begin
    if not exists (select from pg_roles r where r.rolname = current_user and (r.rolcreaterole or r.rolsuper)) then
        return;
    end if;
    for missing in select r.name from fencepost._roles() r where not exists (select from pg_roles p where p.rolname = r.name) order by r.name loop
        begin
            execute format('create role %I nologin', missing);
        exception when duplicate_object or unique_violation or insufficient_privilege then
            null;
        end;
    end loop;
end
$$;

-- Gives the roles of the cluster their rights in this database, for its owner to call when they were made after the installation. Returns
-- those that are not there.
create or replace function fencepost.grant_roles() returns text[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    present text[] := array(select r.name from fencepost._roles() r join pg_roles p on p.rolname = r.name order by r.name);
    present_role text;
begin
    perform pg_advisory_xact_lock(fencepost._topic_hash('rights'));
    foreach present_role in array present loop
        perform fencepost._admit(present_role);
        execute format('grant execute on function %s to %I',
            (select string_agg(p.oid::regprocedure::text, ', ') from pg_proc p
                where p.pronamespace = 'fencepost'::regnamespace and p.proname ~ case present_role
                    -- Those of single queues and prefixes are given with them.
                    when 'fencepost_admin' then '^(?!q[0-9]+_|prefix_[0-9a-f]+$)'
                    when 'fencepost_producer' then '^_any_send'
                    else '^_any_(?!send)' end),
            present_role);
    end loop;
    perform fencepost._give(q.id, named, fencepost._holders(q.id, named)) from fencepost.queue q, unnest(array['producer', 'consumer']) named;
    return array(select r.name from fencepost._roles() r where r.name <> all(present) order by r.name);
end
$$;
