//! `cargo xtask ci`: what a change must pass, the quick stages first, so that most failures come within seconds.

use std::time::Duration;

use crate::stage::{self, Stage};
use crate::workspace::{cargo, run as execute};
use crate::{Result, bench, deps, postgres, probe, test, tidy};

/// How long guards that have to be compiled without are removed one by one. All of them take longer than CI may.
const PROBES: Duration = Duration::from_secs(600);

const STAGES: [Stage; 9] = [
    ("fmt", fmt),
    ("tidy", tidy::run),
    ("deps", deps::run),
    ("clippy", clippy),
    ("docs", docs),
    ("setup", postgres::setup_all),
    test::COMPLETE[0],
    test::COMPLETE[1],
    ("probe", || probe::run_for(PROBES)),
];

pub fn run() -> Result {
    postgres::around(|| stage::run("ci", &STAGES))
}

fn fmt() -> Result {
    execute(cargo().args(["fmt", "--all", "--check"]))?;
    bench::PEERS.iter().try_for_each(|peer| execute(cargo().args(["fmt", "--check", "--manifest-path", peer])))
}

fn clippy() -> Result {
    execute(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn docs() -> Result {
    execute(cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}
