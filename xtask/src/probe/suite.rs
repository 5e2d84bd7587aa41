//! Builds the engines' conformance tests, those of the loops, the migrations' lock and the schedules in the copy, runs them and reads which went red.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::copy::Copy;
use crate::{Result, workspace};

/// The test programs, by crate.
pub struct Suite {
    programs: BTreeMap<String, Vec<Program>>,
}

struct Program {
    path: PathBuf,
    folder: PathBuf,
}

/// What ran in one crate, by test name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Results {
    pub green: BTreeSet<String>,
    pub red: BTreeSet<String>,
}

impl Suite {
    /// Compiles the tests of the copy, with the build folder of the workspace so that the crates from outside are shared.
    pub fn build(copy: &Copy, metadata: &Value) -> Result<Self> {
        let target = metadata["target_directory"].as_str().ok_or("the metadata names no build folder")?;
        let mut command = workspace::cargo();
        command.current_dir(&copy.folder).env("CARGO_TARGET_DIR", target);
        command.args([
            "test",
            "--workspace",
            "--test",
            "conformance",
            "--test",
            "worker",
            "--test",
            "lock",
            "--test",
            "runner",
            "--test",
            "schedule",
            "--no-run",
        ]);
        command.arg("--message-format=json-render-diagnostics");
        // Cargo tells members of two workspaces apart by their path within the workspace, which is the same for the copy and the
        // original; without another setting it would take the artifacts of one for those of the other.
        for member in metadata["packages"].as_array().into_iter().flatten() {
            let name = member["name"].as_str().unwrap_or_default();
            command.arg(format!("--config=profile.dev.package.{name}.codegen-units=255"));
        }
        let output = workspace::output(&mut command)?;
        if !output.status.success() {
            return Err(format!("the tests do not compile:\n{}", String::from_utf8_lossy(&output.stderr)));
        }
        let messages = String::from_utf8_lossy(&output.stdout);
        let mut programs = BTreeMap::<String, Vec<Program>>::new();
        for (package, program) in messages.lines().filter_map(program) {
            programs.entry(package).or_default().push(program);
        }
        Ok(Self { programs })
    }

    /// Runs the tests of `package`, all of them or those that are named.
    pub fn run(&self, package: &str, named: &[&str]) -> Result<Results> {
        let programs = self.programs.get(package).ok_or_else(|| format!("{package} has no tests that watch guards"))?;
        let mut all = Results::default();
        for program in programs {
            let mut command = Command::new(&program.path);
            command.current_dir(&program.folder).args(named);
            if !named.is_empty() {
                command.arg("--exact");
            }
            let output = workspace::output(&mut command)?;
            let output = String::from_utf8_lossy(&output.stdout);
            let of_one = results(&output)
                .ok_or_else(|| format!("the tests of {package} did not run to their end:\n{output}"))?;
            all.green.extend(of_one.green);
            all.red.extend(of_one.red);
        }
        Ok(all)
    }
}

/// The test program that a message of cargo's tells of.
fn program(message: &str) -> Option<(String, Program)> {
    let message: Value = serde_json::from_str(message).ok()?;
    let path = message["executable"].as_str()?.into();
    let folder = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let is_test = message["target"]["kind"].as_array()?.iter().any(|kind| kind == "test");
    let package = folder.file_name()?.to_str()?.to_owned();
    is_test.then_some((package, Program { path, folder }))
}

/// Reads what the test harness prints; `None` when it did not come to its summary.
pub fn results(output: &str) -> Option<Results> {
    let mut results = Results::default();
    for line in output.lines() {
        let Some((name, word)) = line.strip_prefix("test ").and_then(|line| line.rsplit_once(" ... ")) else {
            continue;
        };
        let of = if word == "ok" { &mut results.green } else { &mut results.red };
        of.insert(name.to_owned());
    }
    output.contains("\ntest result: ").then_some(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_by_name() {
        let read = results(
            "\nrunning 2 tests\ntest a::b ... ok\ntest a::c ... FAILED\n\ntest result: FAILED. 1 passed; 1 failed\n",
        );
        let set = |name: &str| BTreeSet::from([name.to_owned()]);
        assert_eq!(read, Some(Results { green: set("a::b"), red: set("a::c") }));
    }

    #[test]
    fn tests_that_did_not_end_have_no_result() {
        assert_eq!(results("running 2 tests\ntest a::b ... ok\n"), None);
    }
}
