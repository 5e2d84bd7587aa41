-- Loaded after all functions: the queues that are there get theirs anew, and whoever may use the schema calls what was granted to it, and
-- nothing because it is PUBLIC.
select fencepost._make_functions(q.id, q.partitions, fencepost._messages_topic(q.name)) from fencepost.queue q;
revoke execute on all functions in schema fencepost from public;
