//! `cargo xtask test`: every test of the workspace, then the examples in its documentation.

use std::process::Stdio;

use crate::Result;
use crate::stage::{self, Stage};
use crate::workspace::{cargo, run as execute};

/// The stages of this task, which are also the test stages of `ci`.
pub const STAGES: [Stage; 2] = [("tests", tests), ("doc tests", doc_tests)];

pub fn run() -> Result {
    stage::run("test", &STAGES)
}

fn tests() -> Result {
    if has_nextest() {
        execute(cargo().args(["nextest", "run", "--workspace", "--no-fail-fast"]))
    } else {
        execute(cargo().args(["test", "--workspace", "--all-targets", "--no-fail-fast"]))
    }
}

fn doc_tests() -> Result {
    execute(cargo().args(["test", "--workspace", "--doc"]))
}

fn has_nextest() -> bool {
    let mut asked = cargo();
    asked.args(["nextest", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    asked.status().is_ok_and(|status| status.success())
}
