//! What the tests have of PostgreSQL: `cargo xtask setup` installs it; a run of the tests is told where it is, counts what it left out
//! for want of it, and ends the servers that the tests shared.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::{Result, workspace};

/// What `setup` installs unless it is told.
pub const USUAL: [&str; 6] = ["15", "pgbouncer", "plpgsql_check", "psycopg", "pg", "jdbc"];

/// What `ci` requires; jdbc where there is a JDK.
pub const ALL: [&str; 10] = ["14", "15", "16", "17", "18", "pgbouncer", "plpgsql_check", "psycopg", "pg", "jdbc"];

/// How long servers may take to end.
const ENDED_WITHIN: Duration = Duration::from_secs(15);

/// Installs what is named, or what is usual.
pub fn setup(names: &[&str]) -> Result {
    let names = if names.is_empty() { USUAL.as_slice() } else { names };
    let mut command = Command::new("bash");
    command.current_dir(workspace::root()).arg("xtask/setup-postgres.sh").arg(folder()?).args(names);
    workspace::run(&mut command)
}

/// Installs all that a complete run of the tests takes.
pub fn setup_all() -> Result {
    setup(&ALL)
}

/// Tells the tests that `command` runs where things are, where to count what they leave out, and whether they may.
pub fn tell(command: &mut Command, required: bool) -> Result {
    command.env("FENCEPOST_PG_FOLDER", folder()?).env("FENCEPOST_LEFT_OUT", left_out()?);
    if required {
        command.env("FENCEPOST_REQUIRE_POSTGRES", "1");
    }
    // The server that tests share is never killed; those that are killed are private, and keep it on.
    if std::env::var_os("FENCEPOST_PG_FSYNC").is_none() {
        command.env("FENCEPOST_PG_FSYNC", "off");
    }
    Ok(())
}

/// Runs tests in `work`: says in the end what was left out, and leaves no server running.
pub fn around(work: impl FnOnce() -> Result) -> Result {
    let file = left_out()?;
    let _ = fs::remove_file(&file);
    let done = work();
    let stopped = stop();
    if let Some(report) = fs::read_to_string(&file).ok().and_then(|lines| report(&lines)) {
        println!("\n{report}");
    }
    done.and(stopped)
}

/// Where `setup` installs to, and the tests keep their servers.
fn folder() -> Result<PathBuf> {
    let metadata = workspace::metadata()?;
    let target = metadata["target_directory"].as_str().ok_or("cargo names no target folder")?;
    let folder = PathBuf::from(target).join("postgres");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make `{}`: {error}", folder.display()))?;
    Ok(folder)
}

/// The file with a line for each test that was left out.
fn left_out() -> Result<PathBuf> {
    Ok(folder()?.join("left-out"))
}

/// Has the shared servers end that nobody uses. One that another run uses goes on until that is done.
fn stop() -> Result {
    let folder = folder()?;
    let entries = fs::read_dir(&folder).map_err(|error| format!("cannot list `{}`: {error}", folder.display()))?;
    let locks = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let running: Vec<PathBuf> = locks.filter(|locks| locks.join("server").is_file()).collect();
    for locks in &running {
        fs::write(locks.join("stop"), "").map_err(|error| format!("cannot stop a server: {error}"))?;
    }
    let since = Instant::now();
    while running.iter().any(|locks| locks.join("server").is_file()) && since.elapsed() < ENDED_WITHIN {
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// How many tests were left out, by what they missed.
fn report(lines: &str) -> Option<String> {
    let mut counts = BTreeMap::new();
    for missing in lines.lines().filter_map(|line| line.split('\t').next()) {
        *counts.entry(missing).or_insert(0_u32) += 1;
    }
    let total: u32 = counts.values().sum();
    let rows: Vec<String> = counts.iter().map(|(missing, count)| format!("!!! {count:>5}  {missing}")).collect();
    (total > 0).then(|| {
        format!(
            "!!! {total} LEFT OUT, as this is not installed:\n{}\n!!! `cargo xtask setup` installs it; a JDK is the system's to bring.",
            rows.join("\n")
        )
    })
}

#[cfg(test)]
mod tests;
