//! Bad days: what holds when the server's disk is full, its clock steps, there is very much of everything, somebody lags for a day, or the
//! schema is an older one. Each test says what must be true.

mod clock;
mod disk;
mod lagging;
mod many;
#[allow(dead_code, reason = "it uses a part of it")]
#[path = "../engine/script.rs"]
mod script;
#[path = "../stage/mod.rs"]
mod stage;
mod upgrades;
