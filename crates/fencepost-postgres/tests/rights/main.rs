//! Who may do what: rights on single queues and prefixes of leases, by roles that try everything else too.

mod deputies;
mod grants;
mod ground;
mod guide;
mod installs;
mod names;
mod reach;
mod scope;
mod shadows;
#[path = "../stage/mod.rs"]
mod stage;
mod stores;
