-- Queues, consumers and slots. The log of a queue has tables of its own, which fencepost._make_log creates.

-- What a consumer has behind it: delivered = (position <= h and finished in b) or (position <= pos and finished in s).
-- s and pos are set while a pass over late commits is under way. The rule and its proof: docs/guide/postgres-log.md.
create type fencepost.cursor as (
    h   bigint,
    b   pg_snapshot,
    s   pg_snapshot,
    pos bigint
);

-- A message as a consumer receives it.
create type fencepost.message as (
    batch_id   bigint,
    id         bigint,
    position   text,
    key        text,
    kind       text,
    payload    bytea,
    headers    jsonb,
    attempt    integer,
    deliveries integer,
    created_at timestamptz
);

-- A row of a log.
create type fencepost.logged as (
    position   bigint,
    id         bigint,
    xid        xid8,
    partition  smallint,
    key        text,
    kind       text,
    payload    bytea,
    headers    jsonb,
    created_at timestamptz,
    expires_at timestamptz
);

-- `turned_at` is when another segment of its log was last begun. `changes` rises with what sleepers want to hear of and the log does not show.
create table fencepost.queue (
    id                  integer     generated always as identity primary key,
    name                text        not null unique,
    partitions          smallint    not null,
    paused              boolean     not null default false,
    retain_for          interval    not null default interval '0',
    retain_unread       interval    not null default interval '7 days',
    retain_unread_bytes bigint      not null default 1073741824,
    changes             bigint      not null default 0,
    turned_at           timestamptz not null default '-infinity'
);

create table fencepost.consumer (
    id           integer  generated always as identity primary key,
    queue_id     integer  not null references fencepost.queue (id),
    name         text     not null,
    slots        smallint not null,
    on_failure   text     not null,
    max_attempts integer  not null,
    max_crashes  integer  not null,
    backoff      interval not null,
    after_id     bigint,
    unique (queue_id, name)
);

-- A consumer as calls look it up: with what they need of its queue.
create type fencepost.target as (
    id           integer,
    name         text,
    queue_id     integer,
    queue        text,
    partitions   integer,
    paused       boolean,
    slots        integer,
    on_failure   text,
    max_attempts integer,
    max_crashes  integer,
    backoff      interval,
    after_id     bigint
);

-- Who owns a slot. The row is what every transition of the slot locks first; only claims and what gives back change it.
-- Nobody owns it while `worker` is NULL; the epoch stays.
create table fencepost.slot (
    consumer_id integer  not null references fencepost.consumer (id) on delete cascade,
    slot        smallint not null,
    epoch       bigint,
    worker      text,
    nonce       text,
    ttl         interval,
    generation  integer,
    primary key (consumer_id, slot)
);

-- The rest of a slot's state: versions that are only appended, so that nothing decays under an old snapshot. The newest one counts.
-- Two tables take turns; fencepost.state_turn says which one is written.
create table fencepost.state_0 (
    consumer_id integer          not null,
    slot        smallint         not null,
    version     bigint           not null,
    expires_at  timestamptz,
    cursor      fencepost.cursor not null,
    batch_id    bigint,
    next        fencepost.cursor,
    size        integer,
    deliveries  integer,
    crashes     integer,
    plain       boolean,
    alone       boolean,
    last_acked  bigint           not null default 0,
    isolated    fencepost.cursor,
    primary key (consumer_id, slot, version)
);

create table fencepost.state_1 (like fencepost.state_0 including all);

create sequence fencepost.state_turn minvalue 0 start 0;

-- Used from the start, so that last_value is the last one given.
select setval('fencepost.state_turn', 0);

-- A message of an open batch: from the log, or one that came again.
create type fencepost.kept as (
    position   bigint,
    id         bigint,
    partition  smallint,
    key        text,
    kind       text,
    payload    bytea,
    headers    jsonb,
    created_at timestamptz,
    failures   integer,
    deliveries integer,
    place      text
);

-- A message as it is handed out, with its batch. Where `id` is NULL the row only says how many were acked.
create type fencepost.handed as (
    acked            integer,
    batch_id         bigint,
    batch_deliveries integer,
    crashes          integer,
    position         bigint,
    id               bigint,
    key              text,
    kind             text,
    payload          bytea,
    headers          jsonb,
    attempt          integer,
    deliveries       integer,
    created_at       timestamptz
);

-- Messages held back until they are due, under the id that their send returned.
create table fencepost.delayed (
    queue_id   integer     not null references fencepost.queue (id) on delete cascade,
    id         bigint      not null,
    partition  smallint    not null,
    key        text,
    kind       text        not null,
    payload    bytea       not null,
    headers    jsonb,
    created_at timestamptz not null,
    expires_at timestamptz,
    due_at     timestamptz not null,
    primary key (queue_id, id)
);

create index delayed_by_due on fencepost.delayed (queue_id, due_at, id);

-- What a consumer set aside. A message is in its slot's range of the log, or here, never both. `place` is where it stands: due, parked,
-- alone, batch, retry, snooze, dead, withdrawn (the four decisions), or void, which has no content.
create table fencepost.aside (
    consumer_id integer     not null references fencepost.consumer (id) on delete cascade,
    position    bigint      not null,
    id          bigint      not null,
    partition   smallint    not null,
    key         text,
    kind        text        not null,
    payload     bytea       not null,
    headers     jsonb,
    created_at  timestamptz not null,
    place       text        not null,
    due_at      timestamptz,
    cause       text,
    failures    integer     not null default 0,
    deliveries  integer     not null default 0,
    reason      text,
    primary key (consumer_id, position)
);

create index aside_by_place on fencepost.aside (consumer_id, partition, place, due_at, position);
create index aside_by_key on fencepost.aside (consumer_id, key, position) where key is not null;

-- Dead letters stay when their consumer is dropped, so they name it.
create table fencepost.dead (
    queue_id   integer     not null references fencepost.queue (id) on delete cascade,
    consumer   text        not null,
    id         bigint      not null,
    position   bigint      not null,
    partition  smallint    not null,
    key        text,
    kind       text        not null,
    payload    bytea       not null,
    headers    jsonb,
    created_at timestamptz not null,
    attempts   integer     not null,
    cause      text        not null,
    reason     text,
    died_at    timestamptz not null,
    primary key (queue_id, consumer, id)
);

create index dead_by_age on fencepost.dead (queue_id, died_at);

-- What idempotent sends left.
create table fencepost.once (
    queue_id   integer     not null references fencepost.queue (id) on delete cascade,
    key        text        not null,
    id         bigint      not null,
    digest     bytea       not null,
    expires_at timestamptz not null,
    primary key (queue_id, key)
);

create index once_by_expiry on fencepost.once (queue_id, expires_at);

-- Who works for a consumer.
create table fencepost.member (
    consumer_id integer     not null references fencepost.consumer (id) on delete cascade,
    member      text        not null,
    worker      text        not null,
    held        integer     not null,
    expires_at  timestamptz not null,
    primary key (consumer_id, member)
);

-- What operators took by force from a consumer's slots.
create table fencepost.slot_forced (
    id          bigint      generated always as identity primary key,
    consumer_id integer     not null references fencepost.consumer (id) on delete cascade,
    slot        smallint    not null,
    at          timestamptz not null,
    epoch       bigint      not null,
    held_by     text,
    reason      text        not null
);

create index slot_forced_by_consumer on fencepost.slot_forced (consumer_id, id);
