//! The workspace as the tasks see it: where it is, what files it has, and how programs are run in it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::Result;

/// The folder of the workspace, whatever folder the task was called from.
pub fn root() -> PathBuf {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    manifest.parent().map(Path::to_path_buf).unwrap_or(manifest)
}

/// The cargo that runs this task, in the workspace's folder.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// Runs `command` with its output in sight.
pub fn run(command: &mut Command) -> Result {
    let status = command.status().map_err(|error| format!("cannot run `{}`: {error}", line(command)))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` ended with {status}", line(command))) }
}

/// Runs `command` and takes its output, whatever its status.
pub fn output(command: &mut Command) -> Result<Output> {
    command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run `{}`: {error}", line(command)))
}

/// What cargo knows of the workspace and its members.
pub fn metadata() -> Result<Value> {
    let mut command = cargo();
    command.args(["metadata", "--no-deps", "--format-version", "1"]).stderr(Stdio::inherit());
    let output = output(&mut command)?;
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cannot read `{}`: {error}", line(&command)))
}

/// The files that git has or would take in, relative to the root.
pub fn files() -> Result<Vec<String>> {
    let root = root();
    let mut command = Command::new("git");
    command.current_dir(&root).args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]);
    let output = output(&mut command)?;
    if !output.status.success() {
        return Err(format!("`{}`: {}", line(&command), String::from_utf8_lossy(&output.stderr).trim()));
    }
    let mut files: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .split_terminator('\0')
        .filter(|file| root.join(file).is_file())
        .map(str::to_owned)
        .collect();
    files.sort_unstable();
    files.dedup();
    Ok(files)
}

/// Fails with all of `findings`, or says that there are none.
pub fn report(checked: &str, findings: &[String]) -> Result {
    if findings.is_empty() {
        println!("{checked}: nothing to complain about");
        return Ok(());
    }
    Err(format!("{checked}:\n  {}", findings.join("\n  ")))
}

fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
