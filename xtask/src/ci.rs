//! `cargo xtask ci`: what a change must pass, the quick stages first, so that most failures come within seconds.

use crate::stage::{self, Stage};
use crate::workspace::{cargo, run as execute};
use crate::{Result, bench, deps, probe, test, tidy};

const STAGES: [Stage; 8] = [
    ("fmt", fmt),
    ("tidy", tidy::run),
    ("deps", deps::run),
    ("clippy", clippy),
    ("docs", docs),
    test::STAGES[0],
    test::STAGES[1],
    ("probe", || probe::run(&[])),
];

pub fn run() -> Result {
    stage::run("ci", &STAGES)
}

fn fmt() -> Result {
    execute(cargo().args(["fmt", "--all", "--check"]))?;
    execute(cargo().args(["fmt", "--check", "--manifest-path", bench::PEER]))
}

fn clippy() -> Result {
    execute(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn docs() -> Result {
    execute(cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}
