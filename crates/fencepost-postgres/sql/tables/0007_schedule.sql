-- Schedules, and what they have fired.

-- `next_at` and `due_at` are set while a schedule waits for its next time. `fires` counts what it has fired.
create table fencepost.schedule (
    id            bigint      generated always as identity primary key,
    name          text        not null collate "C" unique,
    spec          text        not null,
    zone          text        not null,
    queue         text        not null,
    kind          text        not null,
    key           text,
    payload       bytea       not null check (octet_length(payload) <= 1048576),
    misfire       text        not null,
    jitter        bigint      not null,
    starts_at     timestamptz,
    ends_at       timestamptz,
    revision      bigint      not null default 1,
    paused        boolean     not null default false,
    anchor_at     timestamptz not null,
    next_at       timestamptz,
    due_at        timestamptz,
    last_at       timestamptz,
    last_fired_at timestamptz,
    last_message  bigint,
    missed        bigint      not null default 0,
    problem       text,
    fires         bigint      not null default 0
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);

-- A look reads what is due from its beginning, however many wait behind it.
create index schedule_by_due on fencepost.schedule (due_at, name) where due_at is not null;

-- What was fired last, by nominal time: each fires once.
create table fencepost.fired (
    schedule_id bigint      not null,
    nominal_at  timestamptz not null,
    fired_at    timestamptz not null,
    message     bigint      not null,
    primary key (schedule_id, nominal_at)
);

-- Rises with every change that a leader wants to hear of.
create sequence fencepost.schedule_changes as bigint;
