//! The PostgreSQL engine against the suite once more, through a pooler in transaction mode: every case of the same list, none left out.
//! Each transaction may run in another session of the server, and what a session was told before is another client's.

#[path = "conformance.rs"]
mod conformance;
