-- Loaded after all functions: a copy's numbers of transactions count as they did, the queues that are there get theirs anew, and whoever may use the schema calls what was granted to it, and
-- nothing because it is PUBLIC.
select fencepost._shift_xids(h.xid_shift) from fencepost.home h where h.xid_shift <> 0;
select fencepost._make_functions(q.id, q.partitions, fencepost._messages_topic(q.name)) from fencepost.queue q;
revoke execute on all functions in schema fencepost from public;
