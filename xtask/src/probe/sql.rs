//! Guards in the SQL of the PostgreSQL engine: each is removed in a copy of the files, which the tests install in place of the engine's
//! own. Nothing is compiled again, and only the tests named for the guard run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::sql_guards::SqlGuard;
use super::suite::{self, Results};
use crate::stage::seconds;
use crate::{Result, postgres, workspace};

const SQL: &str = "crates/fencepost-postgres/sql";

/// The test programs of the engine, by name.
struct Programs(Vec<(String, PathBuf)>);

/// Removes the guards, and returns the names of those whose removal nobody noticed.
pub fn run(guards: &[&'static SqlGuard], target: &Path) -> Result<Vec<&'static str>> {
    if guards.is_empty() {
        return Ok(Vec::new());
    }
    let programs = Programs::build()?;
    let folder = target.join("probe/sql");
    copy(&workspace::root().join(SQL), &folder)?;
    let since = Instant::now();
    let named: BTreeSet<_> = guards.iter().map(|guard| (guard.program, guard.red)).collect();
    for program in guards.iter().map(|guard| guard.program).collect::<BTreeSet<_>>() {
        let tests: Vec<_> = named.iter().filter(|(of, _)| *of == program).map(|(_, test)| *test).collect();
        let found = programs.results(program, &tests, &folder)?;
        if !found.red.is_empty() || found.green.len() != tests.len() {
            return Err(format!("with every guard in place, of {tests:?} only {:?} are green", found.green));
        }
    }
    println!("{:<22} {:<10} {:>8}  {} tests", "(every guard in place)", "green", seconds(since.elapsed()), named.len());
    let mut unproved = Vec::new();
    for guard in guards {
        let since = Instant::now();
        let proved = prove(guard, &programs, &folder);
        let verdict = if proved.is_ok() { "red" } else { "NOT PROVED" };
        println!("{:<22} {verdict:<10} {:>8}  {}", guard.name, seconds(since.elapsed()), guard.without);
        if let Err(error) = proved {
            println!("{error}");
            unproved.push(guard.name);
        }
    }
    Ok(unproved)
}

fn prove(guard: &SqlGuard, programs: &Programs, folder: &Path) -> Result {
    let path = folder.join(guard.file);
    let original = fs::read_to_string(&path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    let found = original.matches(guard.text).count();
    if found != 1 {
        return Err(format!(
            "`{}` stands {found} times in {}, and must stand there exactly once",
            guard.text, guard.file
        ));
    }
    write(&path, &original.replacen(guard.text, guard.instead, 1))?;
    let results = programs.results(guard.program, &[guard.red], folder);
    write(&path, &original)?;
    if results?.red.contains(guard.red) {
        Ok(())
    } else {
        Err(format!("{} does not notice: {} stays green", guard.program, guard.red))
    }
}

impl Programs {
    fn build() -> Result<Self> {
        let mut command = workspace::cargo();
        command.args([
            "test",
            "-p",
            "fencepost-postgres",
            "--tests",
            "--no-run",
            "--message-format=json-render-diagnostics",
        ]);
        let output = workspace::output(&mut command)?;
        if !output.status.success() {
            return Err(format!("the tests do not compile:\n{}", String::from_utf8_lossy(&output.stderr)));
        }
        let of = |line: &str| {
            let message: serde_json::Value = serde_json::from_str(line).ok()?;
            Some((message["target"]["name"].as_str()?.to_owned(), message["executable"].as_str()?.into()))
        };
        Ok(Self(String::from_utf8_lossy(&output.stdout).lines().filter_map(of).collect()))
    }

    /// Runs some tests of a program on the SQL of a folder.
    fn results(&self, program: &str, tests: &[&str], sql: &Path) -> Result<Results> {
        let path = self.0.iter().find(|(name, _)| name == program).map(|(_, path)| path);
        let mut command = Command::new(path.ok_or_else(|| format!("fencepost-postgres has no tests `{program}`"))?);
        command.current_dir(workspace::root().join("crates/fencepost-postgres"));
        command.args(tests).arg("--exact").env("FENCEPOST_SQL_DIR", sql);
        postgres::tell(&mut command, true)?;
        let output = workspace::output(&mut command)?;
        let output = String::from_utf8_lossy(&output.stdout);
        suite::results(&output).ok_or_else(|| format!("the tests of {program} did not run to their end:\n{output}"))
    }
}

fn copy(from: &Path, to: &Path) -> Result {
    let failed = |error: std::io::Error| format!("cannot copy `{}`: {error}", from.display());
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).map_err(failed)?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).map_err(failed)?;
        if path.is_dir() {
            copy(&path, &to.join(name))?;
        } else {
            fs::copy(&path, to.join(name)).map_err(failed)?;
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result {
    fs::write(path, text).map_err(|error| format!("cannot write `{}`: {error}", path.display()))
}
