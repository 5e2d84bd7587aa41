-- Migrations are recorded in a ledger of their own, `fencepost_installation`; what was written here was taken into it before.
DROP TABLE fencepost_schema;
