-- Loaded after all functions: a copy's numbers of transactions count as they did, the queues and prefixes that are there get theirs anew,
-- and whoever may use the schema calls what was granted to it, and nothing because it is PUBLIC.
select fencepost._make_roles();
select fencepost._shift_xids(h.xid_shift) from fencepost.home h where h.xid_shift <> 0;
select fencepost._make_functions(q.id, q.partitions, fencepost._messages_topic(q.name)) from fencepost.queue q;
select fencepost._make_prefix(obj_description(p.oid, 'pg_proc')) from pg_proc p
    where p.pronamespace = 'fencepost'::regnamespace and p.proname ~ '^prefix_[0-9a-f]{32}$' and obj_description(p.oid, 'pg_proc') is not null;
revoke execute on all functions in schema fencepost from public;
select fencepost.grant_roles();
-- Who has a right calls what is new in this version too.
select fencepost._admit(g.role) from (
    select distinct unnest(fencepost._grantees(p.oid)) as role from pg_proc p
    where p.pronamespace = 'fencepost'::regnamespace and p.proname ~ '^(q[0-9]+_(send|receive)|prefix_[0-9a-f]{32})$') g;
