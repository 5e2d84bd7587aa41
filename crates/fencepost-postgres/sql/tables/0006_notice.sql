-- Notices, kept for a while for who listens: what is new to a listener are the rows that its last snapshot did not show.

create table fencepost.notice (
    id      bigint      generated always as identity primary key,
    channel text        not null,
    payload text        not null,
    at      timestamptz not null,
    xid     xid8        not null default pg_current_xact_id()
) with (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);

create index notice_by_xid on fencepost.notice (xid, id);

-- The highest transaction of a notice that was removed: who has not seen it has missed something. A sequence, since it is seen at once.
create sequence fencepost.notice_removed as bigint minvalue 0 start 0;

-- Used from the start, so that last_value is the last one given.
select setval('fencepost.notice_removed', 0);
