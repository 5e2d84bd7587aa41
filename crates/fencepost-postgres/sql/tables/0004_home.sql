-- How a store notices that it was copied by its rows, as a dump and a restore do: a row that names the transaction that wrote it was then
-- written by another one. A copy of the files, a standby and an upgrade of the server keep it as it is.

-- `xid_shift` is what the transactions of this server count as above their own numbers, see fencepost._xid.
create table fencepost.home (
    only_row  boolean primary key default true check (only_row),
    written   xid     not null,
    xid_shift bigint  not null default 0
);
insert into fencepost.home (written) values ('0');
-- One that was restored in another cluster before it came to this version is such a copy, too.
update fencepost.home set written = xmin
where not exists (select from fencepost.generation g where g.id = (select max(id) from fencepost.generation)
    and split_part(g.name, '/', 1) <> (pg_control_system()).system_identifier::text);

-- Generations too, so that one that came with a copy is none of this server's; and the database by its number, which CREATE DATABASE with a
-- template gives to a copy of the files.
alter table fencepost.generation add column written xid, add column database text;
update fencepost.generation set database = split_part(pg_relation_filepath('fencepost.generation'), '/', -2);
-- ORDER: rows that this transaction has written stand there by now.
update fencepost.generation set written = xmin;
