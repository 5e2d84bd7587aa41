//! The figures: the benchmark program in release, with its own arguments. It stays out of `ci`: a busy machine measures nothing.

use crate::{Result, workspace};

/// Runs `bench` with `args`, on files in the target folder unless they name another.
pub fn run(args: &[&str]) -> Result {
    let folder = workspace::root().join("target").join("bench");
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make `{}`: {error}", folder.display()))?;
    let mut command = workspace::cargo();
    command.args(["run", "--quiet", "--release", "--package", "fencepost-bench", "--"]).args(args);
    if !args.contains(&"--folder") {
        command.arg("--folder").arg(folder);
    }
    workspace::run(&mut command)
}
