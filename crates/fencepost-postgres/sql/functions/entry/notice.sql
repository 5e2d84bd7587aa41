-- Notices, by those who may notify on any channel, or listen to any.

-- Notifies on a channel, once the transaction commits: who listens at that time gets the payload, and nobody later.
create or replace function fencepost.notify(channel text, payload text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if not has_function_privilege('fencepost._any_send_notice'::regproc, 'execute') then
        raise exception using errcode = 'insufficient_privilege', message = format('permission denied for the channel `%s`', channel),
            hint = 'who is to notify is a member of fencepost_producer';
    end if;
    perform fencepost._any_send_notice(channel, payload);
end
$$;

create or replace function fencepost._notices(
    channels text[], known text, since text, upto text, after_xid text, after_id bigint
)
returns table (place text, seen text, is_lost boolean, last_xid text, last_id bigint, channel text, payload text, at timestamptz)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if not has_function_privilege('fencepost._any_notices'::regproc, 'execute') then
        raise exception using errcode = 'insufficient_privilege', message = 'permission denied for channels',
            hint = 'who is to listen is a member of fencepost_consumer';
    end if;
    return query select * from fencepost._any_notices(channels, known, since, upto, after_xid, after_id);
end
$$;
