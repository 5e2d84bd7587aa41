-- Raises an error of the contract. DETAIL is JSON: the stable code, and the facts that the caller needs.
create or replace function fencepost._refuse(code text, message text, facts jsonb default '{}', hint text default null)
returns void
language plpgsql
as $$
declare
    state text := case code
        when 'fenced'          then 'ZF001'
        when 'position_gone'   then 'ZF002'
        when 'leadership_lost' then 'ZF003'
        when 'conflict'        then 'ZF004'
        when 'limit_exceeded'  then 'ZF005'
        when 'schema'          then 'ZF006'
        when 'open_batch'      then '55006'
        when 'busy'            then '55P03'
        when 'unsupported'     then '0A000'
        when 'not_found'       then '42704'
        when 'already_exists'  then '42710'
        when 'invalid_input'   then '22023'
        when 'corrupt'         then 'XX001'
        when 'read_only'       then '25006'
        else 'XX000'
    end;
begin
    raise exception using
        errcode = state,
        message = message,
        detail = (jsonb_build_object('code', code) || facts)::text,
        hint = coalesce(hint, '');
end
$$;
