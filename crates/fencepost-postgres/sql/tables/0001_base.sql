-- What every primitive stands on: which schema is installed, the store's counter of epochs, and the generations of its server.

create table fencepost.installed (
    version      integer     primary key,
    name         text        not null,
    checksum     text        not null,
    installed_at timestamptz not null
);

-- The counter of epochs. It only rises; an epoch stays below 2^53, so that JSON and JavaScript can carry it.
create sequence fencepost.epoch as bigint minvalue 1 maxvalue 9007199254740991 no cycle;

-- Every server and timeline that this store ever lived on. After a failover or a restore a new row appears, and what was granted
-- under an older one is void.
create table fencepost.generation (
    id      integer     generated always as identity primary key,
    name    text        not null unique,
    seen_at timestamptz not null
);
