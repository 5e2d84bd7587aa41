//! `cargo xtask probe`: proves that the tests watch the guards. Each guard is removed in a copy of the workspace, and the tests
//! named for it must then compile, run and go red; a guard whose removal nobody notices is a failure.

mod copy;
mod guards;
mod lock_guards;
mod notice_guards;
mod run_guards;
mod schedule_guards;
mod schedule_sql_guards;
mod sql;
mod sql_guards;
mod suite;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use self::copy::Copy;
use self::guards::Guard;
use self::sql_guards::SqlGuard;
use self::suite::{Results, Suite};
use crate::stage::seconds;
use crate::{Result, workspace};

/// By so many guards the beginning moves each day: less than there is time for.
const A_DAY: usize = 25;

pub fn run(names: &[&str]) -> Result {
    let (in_sql, names): (Vec<&str>, Vec<&str>) =
        names.iter().partition(|name| all_in_sql().any(|guard| guard.name == **name));
    let all = names.is_empty() && in_sql.is_empty();
    let chosen = |guard: &&SqlGuard| all || in_sql.contains(&guard.name);
    let in_sql: Vec<&SqlGuard> = all_in_sql().filter(chosen).collect();
    let guards = if all || !names.is_empty() { select(&names)? } else { Vec::new() };
    prove_all(&guards, &in_sql, None)
}

/// All guards in SQL, and of the others as many as there is time for. It begins with others each day, so that every one has its turn.
pub fn run_for(time: Duration) -> Result {
    let mut guards: Vec<_> = all().collect();
    let days = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 86_400);
    let turn = usize::try_from(days).unwrap_or(0).wrapping_mul(A_DAY) % guards.len();
    guards.rotate_left(turn);
    prove_all(&guards, &all_in_sql().collect::<Vec<_>>(), Some(time))
}

fn prove_all(guards: &[&'static Guard], in_sql: &[&'static SqlGuard], time: Option<Duration>) -> Result {
    let metadata = workspace::metadata()?;
    let target = Path::new(metadata["target_directory"].as_str().ok_or("the metadata names no build folder")?);
    let (mut unproved, left) =
        if guards.is_empty() { (Vec::new(), 0) } else { removed_in_rust(guards, &metadata, target, time)? };
    unproved.extend(sql::run(in_sql, target)?);
    let count = guards.len() - left + in_sql.len();
    if unproved.is_empty() {
        println!("probe: {count} guards removed, every removal noticed; {left} left for another day");
        return Ok(());
    }
    Err(format!("{} of {count} guards are not proved: {}", unproved.len(), unproved.join(", ")))
}

/// Removes guards in the copy of the workspace, for as long as there is time. Returns the names of those whose removal nobody noticed, and how
/// many were left.
fn removed_in_rust(
    guards: &[&'static Guard],
    metadata: &Value,
    target: &Path,
    time: Option<Duration>,
) -> Result<(Vec<&'static str>, usize)> {
    let copy = Copy::new(target.join("probe/workspace"))?;
    require_green(&copy, metadata, guards)?;

    let (mut unproved, begun) = (Vec::new(), Instant::now());
    for (done, guard) in guards.iter().enumerate() {
        if time.is_some_and(|time| begun.elapsed() >= time) {
            return Ok((unproved, guards.len() - done));
        }
        let since = Instant::now();
        let proved = prove(guard, &copy, metadata);
        let verdict = if proved.is_ok() { "red" } else { "NOT PROVED" };
        println!("{:<22} {verdict:<10} {:>8}  {}", guard.name, seconds(since.elapsed()), guard.without);
        match proved {
            Ok(red) => red.iter().for_each(|line| println!("{:<22} {line}", "")),
            Err(error) => {
                println!("{error}");
                unproved.push(guard.name);
            }
        }
    }
    Ok((unproved, 0))
}

/// All guards that are lines of Rust, or of what is embedded in it.
fn all() -> impl Iterator<Item = &'static Guard> {
    let of_migrations = lock_guards::GUARDS.iter().chain(run_guards::GUARDS);
    guards::GUARDS.iter().chain(of_migrations).chain(notice_guards::GUARDS).chain(schedule_guards::GUARDS)
}

/// All guards in the SQL of the PostgreSQL engine.
fn all_in_sql() -> impl Iterator<Item = &'static SqlGuard> {
    sql_guards::GUARDS.iter().chain(notice_guards::SQL).chain(schedule_sql_guards::GUARDS)
}

/// The guards of the given names, or all.
fn select(names: &[&str]) -> Result<Vec<&'static Guard>> {
    if names.is_empty() {
        return Ok(all().collect());
    }
    let find = |name: &&str| {
        let known = || all().map(|guard| guard.name).collect::<Vec<_>>().join(", ");
        all().find(|guard| guard.name == *name).ok_or_else(|| format!("no guard `{name}`; there are {}", known()))
    };
    names.iter().map(find).collect()
}

/// The same tests with every guard in place: red ones there would prove nothing later.
fn require_green(copy: &Copy, metadata: &Value, guards: &[&Guard]) -> Result {
    let since = Instant::now();
    let suite = Suite::build(copy, metadata)?;
    let engines: BTreeSet<&str> = guards.iter().flat_map(|guard| guard.engines).copied().collect();
    let mut count = 0;
    for engine in engines {
        let Results { green, red } = suite.run(engine, &[])?;
        if !red.is_empty() {
            return Err(format!("with every guard in place, {engine} is red already: {red:?}"));
        }
        let named = guards.iter().filter(|guard| guard.engines.contains(&engine)).flat_map(|guard| guard.red);
        if let Some(unknown) = named.copied().find(|test| !green.contains(*test)) {
            return Err(format!("{engine} has no test `{unknown}`"));
        }
        count += green.len();
    }
    println!("{:<22} {:<10} {:>8}  {count} tests", "(every guard in place)", "green", seconds(since.elapsed()));
    Ok(())
}

/// Removes the guard and runs the tests; returns a line an engine on what went red.
fn prove(guard: &Guard, copy: &Copy, metadata: &Value) -> Result<Vec<String>> {
    copy.with(guard.file, guard.text, guard.instead, || {
        let suite = Suite::build(copy, metadata)?;
        // The rest would tell nothing more, and takes a minute where servers are waited for.
        guard.engines.iter().map(|engine| noticed(guard, engine, &suite.run(engine, guard.red)?)).collect()
    })
}

/// Says what went red, or which of the tests that must have did not.
fn noticed(guard: &Guard, engine: &str, results: &Results) -> Result<String> {
    let missed: Vec<_> = guard.red.iter().filter(|test| !results.red.contains(**test)).collect();
    if !missed.is_empty() {
        return Err(format!("{engine} does not notice: {missed:?} stay green, red are {:?}", results.red));
    }
    Ok(format!("{engine}: {} red, among them {}", results.red.len(), guard.red.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_are_selected_by_name() {
        assert_eq!(select(&[]).unwrap().len(), all().count());
        assert_eq!(select(&["ack-epoch"]).unwrap()[0].name, "ack-epoch");
        assert!(select(&["ack"]).err().unwrap().contains("ack-epoch"));
    }

    #[test]
    fn every_guard_has_a_name_of_its_own_and_somebody_who_notices() {
        let names: BTreeSet<_> = all().map(|guard| guard.name).collect();
        assert_eq!(names.len(), all().count());
        for guard in all() {
            assert!(!guard.engines.is_empty() && !guard.red.is_empty(), "{}", guard.name);
        }
    }

    #[test]
    fn a_removal_that_one_named_test_does_not_notice_is_an_error() {
        let guard = all().find(|guard| guard.red.len() == 2).expect("a guard that two tests watch");
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let half = Results { green: set(&guard.red[1..]), red: set(&guard.red[..1]) };
        assert!(noticed(guard, "fencepost-mem", &half).is_err());
        let all = Results { green: BTreeSet::new(), red: set(&[guard.red, &["others::too"]].concat()) };
        assert!(noticed(guard, "fencepost-mem", &all).unwrap().starts_with("fencepost-mem: 3 red, among them "));
    }
}
