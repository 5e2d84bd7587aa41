//! Migrations that are run: on real servers, with real failures; and on files of SQLite.

mod support;

mod blocked;
mod failing;
mod gate;
mod hand;
mod import;
mod index;
mod killed;
mod ledger;
mod locked;
mod session;
mod speed;
mod sqlite;
mod within;
