//! `cargo xtask test`: every test of the workspace, then the examples in its documentation.

use std::process::{Command, Stdio};

use crate::stage::{self, Stage};
use crate::workspace::{cargo, run as execute};
use crate::{Result, postgres};

/// The stages of this task.
const STAGES: [Stage; 2] = [("tests", || tests(false)), ("doc tests", || doc_tests(false))];

/// The same where nothing may be left out, which are also the test stages of `ci`.
pub const COMPLETE: [Stage; 2] = [("tests", || tests(true)), ("doc tests", || doc_tests(true))];

/// Runs what can be run here, and says what was left out.
pub fn run() -> Result {
    postgres::around(|| stage::run("test", &STAGES))
}

/// Runs all, and fails when something is missing.
pub fn run_complete() -> Result {
    postgres::around(|| stage::run("test", &COMPLETE))
}

fn tests(required: bool) -> Result {
    if has_nextest() {
        told(cargo().args(["nextest", "run", "--workspace", "--no-fail-fast"]), required)
    } else {
        told(cargo().args(["test", "--workspace", "--all-targets", "--no-fail-fast"]), required)
    }
}

fn doc_tests(required: bool) -> Result {
    told(cargo().args(["test", "--workspace", "--doc"]), required)
}

fn told(command: &mut Command, required: bool) -> Result {
    postgres::tell(command, required)?;
    execute(command)
}

fn has_nextest() -> bool {
    let mut asked = cargo();
    asked.args(["nextest", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    asked.status().is_ok_and(|status| status.success())
}
